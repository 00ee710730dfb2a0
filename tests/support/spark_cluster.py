"""Clusters with a Hive metastore for tests, from pyspark's own jars: Spark's standalone one, and
YARN.

A master and two workers, or a resource manager and its node, and a metastore, each a process of its
own on this machine; drivers come by `spark-submit`. The executors' Python has what the product
depends on and not the product itself, which an archive brings: as on a cluster.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tarfile
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from pyspark.find_spark_home import _find_spark_home

from pipelines.platform.jars import fetch
from pipelines.platform.java import find_java
from pipelines.platform.session import HERE
from tests.support.kafka_broker import _free_ports

ROOT = Path(__file__).parents[2]
HOME = Path(_find_spark_home())
STARTS_WITHIN = 90.0
ENDS_WITHIN = 400.0
DOCUMENTED = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""What docs/spark-submit.md asks for."""
LOCK = Path(__file__).with_name("yarn.jars")
QUIET = f"-Dlog4j2.configurationFile={(HERE / 'log4j2.properties').as_uri()}"
SMALL = {
    # Two drivers at once, each with an executor of one core on both workers.
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "640m",
    "spark.driver.memory": "900m",
    "spark.ui.enabled": "false",
    # They live for a minute: as in conftest.py, less is compiled.
    "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 {QUIET}",
    "spark.executor.extraJavaOptions": f"-XX:TieredStopAtLevel=1 {QUIET}",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_YARN = "org.apache.hadoop.yarn.server"
_METASTORE = {
    "javax.jdo.option.ConnectionURL": "jdbc:derby:;databaseName={folder}/metastore;create=true",
    "datanucleus.schema.autoCreateAll": "true",
    "hive.metastore.schema.verification": "false",
    "hive.async.log.enabled": "false",
}


class Driver(NamedTuple):
    """A command under spark-submit, and the file that it prints to."""

    process: subprocess.Popen[bytes]
    output: Path

    def wait(self) -> tuple[int, str]:
        """Its exit code, and what it printed: spark-submit has one output for Python's two."""
        try:
            code = self.process.wait(ENDS_WITHIN)
        finally:
            self.process.kill()
        return code, self.output.read_text()


class Cluster:
    """What runs: `master` and `metastore` are the addresses of the two; `settings` are what drivers
    are given on it, beside the documented ones."""

    def __init__(
        self, folder: Path, *, master: str, metastore: str, settings: Mapping[str, str]
    ) -> None:
        self.folder = folder
        self.master = master
        self.metastore = metastore
        self.settings = settings
        self.archive = folder / "ingest.tar.gz"
        self.python = folder / "python"
        self._drivers: list[Driver] = []
        _product(self.archive)
        python_in(self.python)

    def submit(self, *words: str, settings: Mapping[str, str] | None = None) -> Driver:
        """A driver that runs the command with these words; `settings` come beside the documented
        ones, and replace them."""
        jars = ",".join(map(str, fetch(HERE / "delta.jars")))
        given = {
            **{**DOCUMENTED, **SMALL},
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.hive.metastore.uris": self.metastore,
            "spark.sql.warehouse.dir": str(self.folder / "tables"),
            "spark.executorEnv.PYTHONPATH": "ingest",
            **self.settings,
            **(settings or {}),
        }
        command = [str(HOME / "bin" / "spark-submit"), "--master", self.master, "--jars", jars]
        command += ["--archives", f"{self.archive}#ingest"]
        for name, value in given.items():
            command += ["--conf", f"{name}={value}"]
        command += [str(ROOT / "pipelines" / "cli" / "app.py"), *words]
        python = {
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_PYTHON": str(self.python / "bin" / "python"),
            "HADOOP_CONF_DIR": str(self.folder),
        }
        number = len(self._drivers) + 1
        output = self.folder / f"driver{number}.log"
        # Into a file: nobody reads while it works.
        with output.open("wb") as printed:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**environment(), **python},
                stdout=printed,
                stderr=printed,
            )
        self._drivers.append(Driver(process, output))
        return self._drivers[-1]

    def end(self) -> None:
        """End the drivers that still run."""
        for driver in self._drivers:
            driver.process.kill()
            driver.process.wait()


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Runs Spark's own cluster, whose tables, logs and metastore lie in `folder`.

    Raises:
        RuntimeError: a process ended or did not listen in time; holds the end of its log.
    """
    (master,) = _free_ports(1)
    address = f"spark://127.0.0.1:{master}"
    deploy = "org.apache.spark.deploy"
    with ExitStack() as running:
        metastore = running.enter_context(_metastore(folder))
        words = (f"{deploy}.master.Master", *_at(master), "--webui-port", "0")
        running.enter_context(_process(folder, "master", words))
        _wait_for(master, folder / "master.log")
        for number in (1, 2):
            place = str(folder / f"worker{number}")
            worker = (f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0")
            words = (*worker, "-c", "2", "-m", "2g", "-d", place, address)
            running.enter_context(_process(folder, f"worker{number}", words))
        _wait_for(int(metastore.rpartition(":")[2]), folder / "metastore.log")
        begun = Cluster(
            folder,
            master=address,
            metastore=metastore,
            settings={"spark.driver.host": "127.0.0.1"},
        )
        running.callback(begun.end)
        yield begun


@contextmanager
def yarn(folder: Path) -> Iterator[Cluster]:
    """Runs YARN, a resource manager and one node, in the same way; drivers run on the node."""
    manager, scheduler, tracker, localizer = _free_ports(4)
    sites = {
        "yarn.resourcemanager.address": f"127.0.0.1:{manager}",
        "yarn.resourcemanager.scheduler.address": f"127.0.0.1:{scheduler}",
        "yarn.resourcemanager.resource-tracker.address": f"127.0.0.1:{tracker}",
        "yarn.resourcemanager.admin.address": "127.0.0.1:0",
        "yarn.resourcemanager.webapp.address": "127.0.0.1:0",
        "yarn.resourcemanager.scheduler.class": f"{_YARN}.resourcemanager.scheduler.fifo."
        "FifoScheduler",
        "yarn.scheduler.minimum-allocation-mb": "256",
        "yarn.nodemanager.hostname": "127.0.0.1",
        "yarn.nodemanager.localizer.address": f"127.0.0.1:{localizer}",
        "yarn.nodemanager.webapp.address": "127.0.0.1:0",
        "yarn.nodemanager.local-dirs": str(folder / "node"),
        "yarn.nodemanager.log-dirs": str(folder / "containers"),
        "yarn.nodemanager.resource.memory-mb": "6144",
        "yarn.nodemanager.resource.cpu-vcores": "4",
        # However full the disk of the machine that tests is.
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
        "yarn.nodemanager.pmem-check-enabled": "false",
        "yarn.nodemanager.vmem-check-enabled": "false",
        # Keep what containers printed.
        "yarn.nodemanager.delete.debug-delay-sec": "3600",
    }
    _site(folder / "yarn-site.xml", sites)
    _site(folder / "core-site.xml", {"fs.defaultFS": "file:///"})
    jars = fetch(LOCK)
    with ExitStack() as running:
        metastore = running.enter_context(_metastore(folder))
        for name, words in (
            ("manager", (f"{_YARN}.resourcemanager.ResourceManager",)),
            ("node", (f"{_YARN}.nodemanager.NodeManager",)),
        ):
            running.enter_context(_process(folder, name, words, jars=jars))
            _wait_for(manager if name == "manager" else localizer, folder / f"{name}.log")
        _wait_for(int(metastore.rpartition(":")[2]), folder / "metastore.log")
        python = str(folder / "python" / "bin" / "python")
        begun = Cluster(
            folder,
            master="yarn",
            metastore=metastore,
            settings={
                "spark.submit.deployMode": "cluster",
                "spark.executor.instances": "1",
                "spark.yarn.jars": f"local:{HOME}/jars/*",
                "spark.yarn.appMasterEnv.PYTHONPATH": "ingest",
                "spark.yarn.appMasterEnv.PYSPARK_PYTHON": python,
                "spark.yarn.appMasterEnv.PYSPARK_DRIVER_PYTHON": python,
            },
        )
        running.callback(begun.end)
        yield begun


@contextmanager
def _metastore(folder: Path) -> Iterator[str]:
    """Starts a Hive metastore; gives its address, where it does not listen yet."""
    (port,) = _free_ports(1)
    values = {name: value.format(folder=folder) for name, value in _METASTORE.items()}
    _site(folder / "hive-site.xml", values)
    words = ("org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port))
    with _process(folder, "metastore", words):
        yield f"thrift://127.0.0.1:{port}"


def _site(file: Path, values: Mapping[str, str]) -> None:
    properties = (
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in values.items()
    )
    file.write_text(f"<configuration>{''.join(properties)}</configuration>")


def _at(port: int) -> Sequence[str]:
    return "--host", "127.0.0.1", "--port", str(port)


@contextmanager
def _process(
    folder: Path, name: str, words: Sequence[str], *, jars: Sequence[Path] = ()
) -> Iterator[None]:
    java = [str(find_java() / "bin" / "java"), "-Xmx256m", "-XX:TieredStopAtLevel=1"]
    java += [f"-Dderby.stream.error.file={folder}/derby.log"]
    java += ["-cp", os.pathsep.join([str(folder), *map(str, jars), f"{HOME}/jars/*"])]
    with (folder / f"{name}.log").open("ab") as output:
        process = subprocess.Popen(
            [*java, *words], cwd=folder, env=environment(), stdout=output, stderr=output
        )
    try:
        yield
    finally:
        # A worker ends its executors when it is asked to end.
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def environment() -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name != "SPARK_CONF_DIR"}
    return {
        **inherited,
        "JAVA_HOME": str(find_java()),
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        # A worker looks for it in the folders of a build where there is no file RELEASE.
        "SPARK_SCALA_VERSION": "2.13",
    }


def _wait_for(port: int, log: Path) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < deadline:
        with socket.socket() as knocking:
            if knocking.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    end = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
    raise RuntimeError(f"{log.stem} did not listen within {STARTS_WITHIN:.0f} s:\n{end}")


def _product(archive: Path) -> None:
    """The product alone; on a cluster its dependencies lie beside it."""
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        for package in ("ingest", "pipelines"):
            packed.add(ROOT / package, package)


def python_in(folder: Path) -> None:
    """A Python with every dependency and without the product, which is installed by a .pth file:
    those of a folder that itself comes by a .pth file are not read."""
    venv.create(folder, with_pip=False, symlinks=True)
    there = next(path for path in sys.path if path.endswith("site-packages"))
    own = next(folder.glob("lib/python*/site-packages"))
    (own / "dependencies.pth").write_text(f"{there}\n")
