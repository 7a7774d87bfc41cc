"""Opens the one Spark session of a run: any master URL, quiet, tuned, with our package on the executors."""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from pyspark import SparkContext
from pyspark.sql.utils import is_remote

from coterie.errors import ConfigError
from coterie.pipeline.java import Java, find_java, java_home
from coterie.pipeline.shipping import package_zip
from coterie.pipeline.storage import use_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTERS = (
    "local[*], local[N], local[N,retries], local-cluster[workers,cores,MB], spark://host:port, yarn, "
    "k8s://https://host:port or sc://host:port"
)
KNOWN_MASTER = re.compile(
    r"local(\[(\*|[1-9]\d*)(, *\d+)?\])?|local-cluster\[\d+ *, *\d+ *, *\d+\]|spark://.+|yarn|k8s://.+"
)
EXTRA_JVM = "spark.driver.extraJavaOptions"
DEFAULTS = "spark-defaults.conf"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Profile:
    """How the JVM and Spark are tuned for one kind of use."""

    jvm: tuple[str, ...]
    conf: Mapping[str, str] = field(default_factory=dict)


PROFILES = {
    # Measured on two cores: dedupe of 20 million rows is flat between 4 and 200 partitions, spills below 4 GB.
    "job": Profile(
        ("-XX:+UseParallelGC",),
        {
            "spark.driver.memory": "4g",
            "spark.sql.adaptive.enabled": "true",
            "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
            "spark.shuffle.compress": "true",
        },
    ),
    # Start-up and planning dominate tiny frames: no optimising compiler, no code generation, one partition.
    "test": Profile(
        ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
        {
            "spark.ui.enabled": "false",
            "spark.driver.memory": "1g",
            "spark.default.parallelism": "1",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.shuffle.compress": "false",
            "spark.shuffle.spill.compress": "false",
            "spark.rdd.compress": "false",
        },
    ),
}


def open_session(
    master: str = "local[*]",
    *,
    profile: str = "job",
    app_name: str = "coterie",
    work_dir: Path | None = None,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Make the session, or join the one that is there, whatever master is asked for; `conf` wins over the profile.

    Blocks for a few seconds while the JVM starts. The process environment is changed only meanwhile. `close_session`
    ends it.
    """
    if profile not in PROFILES:
        raise ConfigError("spark profile", profile, " or ".join(PROFILES))
    conf = {**_asked, **(conf or {})}
    if master.startswith("sc://"):
        return _connect(master, app_name, conf)
    if not KNOWN_MASTER.fullmatch(master):
        raise ConfigError("spark", master, MASTERS)
    if is_running() or is_submitted():
        use_settings(conf)
        return _joined(app_name, conf)
    use_settings({**spark_defaults(), **conf})
    java = find_java()
    settings = _settings(master, profile, (work_dir or Path(tempfile.gettempdir())).resolve(), conf)
    with _environment(_launch_environment(master, java)):
        return _start(master, app_name, settings)


def _settings(master: str, profile: str, work_dir: Path, conf: Mapping[str, str]) -> dict[str, str]:
    log_file = Path(__file__).with_name("log4j2.properties")
    jvm = [f"-Dlog4j2.configurationFile=file:{log_file}", *PROFILES[profile].jvm, *conf.get(EXTRA_JVM, "").split()]
    settings = {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.local.dir": str(work_dir),
        "spark.sql.warehouse.dir": str(work_dir / "warehouse"),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # What RocksDB keeps goes into a store as other files do: the SDK's own way to upload a file waits for ever for
        # a server that answers `Expect: 100-continue` (moto does).
        "spark.hadoop.fs.s3a.optimized.copy.from.local.enabled": "false",
        **PROFILES[profile].conf,
    }
    if profile == "job" and master.startswith("local"):
        settings["spark.sql.shuffle.partitions"] = str(max(8, 2 * _cores(master)))  # elsewhere Spark's own
    if master.startswith("local"):
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
        # Only where executors surely have this very environment: the daemon is imported before shipped files arrive.
        settings["spark.python.daemon.module"] = "coterie.pipeline.sparkd"
        # Over TCP the short answers of small tasks wait for each other: 65 ms a task, over Unix sockets 20 ms.
        settings["spark.python.unix.domain.socket.enabled"] = str(hasattr(socket, "AF_UNIX")).lower()
    else:
        settings["spark.submit.pyFiles"] = str(package_zip())
    defaults = spark_defaults()
    settings = {key: value for key, value in settings.items() if key not in defaults}
    settings.update({key: value for key, value in conf.items() if key != EXTRA_JVM})
    settings[EXTRA_JVM] = " ".join([*jvm, *defaults.get(EXTRA_JVM, "").split()])
    return settings


def _cores(master: str) -> int:
    if master.startswith("local-cluster"):
        workers, cores, _ = map(int, re.findall(r"\d+", master))
        return workers * cores
    told = re.match(r"local\[(\d+)", master)
    if told:
        return int(told[1])
    return 1 if master == "local" else os.cpu_count() or 1


def spark_defaults() -> dict[str, str]:
    """What the machine's spark-defaults.conf says; it wins over our own choices, and is won over by `--conf`."""
    homes = [os.environ.get("SPARK_CONF_DIR"), os.path.join(os.environ.get("SPARK_HOME", "."), "conf")]
    path = next((Path(home) / DEFAULTS for home in homes if home and (Path(home) / DEFAULTS).is_file()), None)
    if path is None:
        return {}
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    pairs = [re.split(r"\s*[=:]\s*|\s+", line, maxsplit=1) for line in lines if line and not line.startswith("#")]
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}


_asked: dict[str, str] = {}


def ask_for(conf: Mapping[str, str]) -> None:
    """Settings for every session that this process opens from now on, as a user has said them."""
    _asked.update(conf)
    use_settings(conf)


def parse_conf(words: Sequence[str]) -> dict[str, str]:
    """`--conf key=value` as Spark's own commands take it."""
    found = {}
    for word in words:
        key, separator, value = word.partition("=")
        if not separator or not key.strip().startswith("spark."):
            raise ConfigError("--conf", word, "spark.some.key=value")
        found[key.strip()] = value.strip()
    return found


def is_submitted() -> bool:
    """Whether `spark-submit` has started this process: the JVM is there, with master, memory and jars decided."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def is_running() -> bool:
    """Whether somebody in this process has a session: a notebook, a platform's job, or an earlier call."""
    return is_remote() or SparkContext._active_spark_context is not None


_opened: list[SparkSession] = []  # by us; once for each call that has it


def _held(session: SparkSession, was_there: bool = False) -> SparkSession:
    if not was_there or any(session is one for one in _opened):
        _opened.append(session)
    return session


def close_session(session: SparkSession) -> None:
    """Stop what `open_session` has made, when nobody has it any more; somebody else's session goes on."""
    held = [index for index, one in enumerate(_opened) if one is session]
    if held:
        del _opened[held[0]]
    if len(held) == 1:
        session.stop()


def _launch_environment(master: str, java: Java) -> dict[str, str]:
    variables = {
        **ONE_THREAD,
        "JAVA_HOME": str(java_home(java)),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    if master.startswith("local"):
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    return variables


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _start(master: str, app_name: str, settings: Mapping[str, str]) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError, RuntimeError) as error:
        raise ConfigError(
            "spark", master, "a master where a session starts", do=f"Spark says: {_first_line(error)}"
        ) from error
    if master.startswith("local-cluster"):
        # Its workers keep their files inside the installed pyspark package, whatever they are told.
        litter = Path(pyspark.__file__).parent / "work" / session.sparkContext.applicationId
        atexit.register(shutil.rmtree, litter, ignore_errors=True)
    return _held(session)


def _joined(app_name: str, conf: Mapping[str, str]) -> SparkSession:
    """The session of `spark-submit`, of a notebook or of a platform's job, as it was made; our package shipped."""
    from pyspark.sql import SparkSession

    was_there = is_running()
    builder = SparkSession.builder.appName(app_name).config("spark.sql.session.timeZone", "UTC")
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if is_remote():
        session.addArtifacts(str(package_zip()), pyfile=True)
        return _held(session, was_there)
    use_settings(dict(session.sparkContext.getConf().getAll()))
    if not re.match(r"local(\[|$)", str(session.sparkContext.master)):
        session.sparkContext.addPyFile(str(package_zip()))
    return _held(session, was_there)


def _connect(url: str, app_name: str, conf: Mapping[str, str]) -> SparkSession:
    missing = [name for name in ("grpc", "grpc_status", "google.rpc", "zstandard") if not _is_installed(name)]
    if missing:
        raise ConfigError("spark", url, f"{', '.join(missing)} for Spark Connect", do="pip install 'coterie[connect]'")
    from pyspark.sql import SparkSession

    was_there = is_running()
    builder = SparkSession.builder.remote(url).appName(app_name)
    for key, value in {"spark.sql.session.timeZone": "UTC", **conf}.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
        session.addArtifacts(str(package_zip()), pyfile=True)
        use_settings(conf)
    except Exception as error:  # grpc has its own tree of errors, which may not be importable here
        raise ConfigError(
            "spark", url, "a Spark Connect server that answers", do=f"Spark says: {_first_line(error)}"
        ) from error
    return _held(session, was_there)


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].strip() if lines else type(error).__name__
