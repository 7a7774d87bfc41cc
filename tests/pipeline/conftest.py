"""One small Spark session for the whole run."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from coterie.pipeline.session import open_session

    session = open_session("local[1]", profile="test", work_dir=tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
