"""Tests of Iceberg tables in Spark, in an environment of their own: `python -m tests.engines.spark_lake [-k words]`.

Iceberg is written for one version of Spark, here 3.5, and the other tests have Spark 4. The jar of Apache Iceberg comes
with a package of PyPI. All tests of Spark run there, so that the engines are tried on Spark 3.5, too.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "pyspark==3.5.*",
    "snowpark-connect-deps-iceberg==1.0.2",  # 1.0.3 lacks classes that Iceberg needs
    f"duckdb=={version('duckdb')}",
)
TESTED = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "deltalake", "pyiceberg[pyarrow,sql-sqlite]")
CLIENTS = ("psutil", "psycopg[binary]", "adbc-driver-postgresql", "adbc-driver-manager")
WARNINGS = (  # of pyspark 3.5 itself
    "ignore::DeprecationWarning",
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)


def main() -> int:
    """Make the environment and run the tests."""
    with tempfile.TemporaryDirectory(prefix="dpsql-iceberg-") as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        wanted = (*PACKAGES, *TESTED, *CLIENTS)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--editable", str(ROOT), *wanted], check=True)
        tests = [str(path) for path in sorted((ROOT / "tests" / "engines").glob("test_spark_*.py"))]
        tests.append(str(ROOT / "tests" / "engines" / "test_conformance.py") + "::test_an_engine_conforms")
        flags = [flag for warning in WARNINGS for flag in ("-W", warning)]
        asked = sys.argv[1:] or ["-k", "spark"]
        command = [python, "-m", "pytest", "-n", "2", "-m", "not slow", *flags, *tests, *asked]
        return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
