"""Exit 0 if Spark has a Java to run on; else say what to install."""

import sys

from coterie.errors import ConfigError
from coterie.pipeline.java import find_java

try:
    find_java()
except ConfigError as error:
    sys.exit(f"{error}")
