//! What two codecs of others make of a stream of MQTT packets, for tests/fuzz/rivals.py.
//!
//! In: records of the version (1 byte, 4 or 5), a length (4 bytes, big endian) and that many bytes.
//! Out, for each record and each codec: how many packets came out (2 bytes) and how it ended:
//! `w` all taken or more awaited, `e` refused, `p` panicked.

use bytes::{Buf, BytesMut};
use std::io::{self, Read, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};
use tokio_util::codec::Decoder;

const MAX: usize = 4096;

fn rmqtt(version: u8, data: &[u8]) -> (u16, u8) {
    let mut stream = BytesMut::from(data);
    let mut count = 0;
    let mut old = rmqtt_codec::v3::Codec::new(MAX as u32);
    let mut new = rmqtt_codec::v5::Codec::new(MAX as u32, MAX as u32);
    loop {
        let found = if version == 4 {
            old.decode(&mut stream).map(|one| one.is_some())
        } else {
            new.decode(&mut stream).map(|one| one.is_some())
        };
        match found {
            Ok(true) => count += 1,
            Ok(false) => return (count, b'w'),
            Err(_) => return (count, b'e'),
        }
    }
}

fn mqttbytes(version: u8, data: &[u8]) -> (u16, u8) {
    let mut stream = BytesMut::from(data);
    let mut count = 0;
    while stream.has_remaining() {
        let found = if version == 4 {
            mqttbytes::v4::read(&mut stream, MAX).map(|_| ())
        } else {
            mqttbytes::v5::read(&mut stream, MAX).map(|_| ())
        };
        match found {
            Ok(()) => count += 1,
            Err(mqttbytes::Error::InsufficientBytes(_)) => return (count, b'w'),
            Err(_) => return (count, b'e'),
        }
    }
    (count, b'w')
}

fn main() -> io::Result<()> {
    std::panic::set_hook(Box::new(|_| {}));
    let mut input = io::stdin().lock();
    let mut output = io::BufWriter::new(io::stdout().lock());
    let mut head = [0u8; 5];
    while input.read_exact(&mut head).is_ok() {
        let size = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut data = vec![0u8; size];
        input.read_exact(&mut data)?;
        for codec in [rmqtt, mqttbytes] {
            let said = catch_unwind(AssertUnwindSafe(|| codec(head[0], &data)));
            let (count, ended) = said.unwrap_or((0, b'p'));
            output.write_all(&count.to_be_bytes())?;
            output.write_all(&[ended])?;
        }
    }
    output.flush()
}
