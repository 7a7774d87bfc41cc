"""Driver 2: one broker per process, on a real clock, with sockets, threads and a store on disk."""
