"""A Slurm of two nodes, each a machine made of namespaces, with its controller on the first one.

Its daemons are the installed ones; configuration, state and keys lie in a folder of the test.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "hosts"))
import machines

NAMES = ("left", "right")
CPUS = 4  # of a node, which Slurm is to believe
GPUS = 2  # the same
DAEMONS = ("munged", "slurmctld", "slurmd")
TOOLS = ("sbatch", "srun", "squeue", "scontrol", "scancel", "sinfo")
START = 60  # seconds for the nodes to be there

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={control}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A job that is queued again waits until its first credential has expired: 120 s by default.
AuthInfo=socket={folder}/munge/socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
# The processors of the nodes are what is written here, not what the machine has.
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=20
SchedulerParameters=sched_interval=2,batch_sched_delay=1
GresTypes=gpu
NodeName={nodes} CPUs={cpus} RealMemory=1000 Gres=gpu:{gpus}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=YES
PartitionName=other Nodes=ALL MaxTime=10
"""


def find(tool):
    """Debian keeps daemons in a folder that is not in the PATH of every user."""
    return shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def enter(program):
    """Goes on in namespaces of its own; ends with machines.SKIPPED where that or Slurm is not to be had."""
    missing = [tool for tool in DAEMONS + TOOLS if not find(tool)]
    if missing:
        machines.skip(f"Slurm is not installed: {', '.join(missing)} (Debian: slurm-wlm)")
    if os.geteuid() != 0:
        machines.skip("the daemons of Slurm need root")
    machines.enter(program)


class Cluster:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="plait-slurm-"))
        self.folder.chmod(0o755)  # munged wants its socket within everybody's reach
        self.daemons = []
        self.network = machines.Machines(NAMES)
        self.left, self.right = self.network.all
        self.configuration = self.folder / "slurm.conf"
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self):
        for name in ("state", *(f"spool-{node}" for node in NAMES)):
            (self.folder / name).mkdir()
        self.configuration.write_text(CONFIGURATION.format(control=NAMES[0], folder=self.folder, nodes=",".join(NAMES), cpus=CPUS, gpus=GPUS))
        for number in range(GPUS):
            (self.folder / f"gpu{number}").touch()
        (self.folder / "gres.conf").write_text(f"Name=gpu File={self.folder}/gpu[0-{GPUS - 1}]\n")
        self.start_munge()
        self.daemon(self.left, "slurmctld", "-D", "-i")
        for machine in self.network.all:
            self.daemon(machine, "slurmd", "-D", "-N", machine.name)
        end = time.monotonic() + START
        while self.states() != {"idle"}:
            if time.monotonic() > end:
                raise RuntimeError(f"the nodes are {self.states()}, not idle\n" + self.logs())
            time.sleep(0.2)

    def start_munge(self):
        folder = self.folder / "munge"
        folder.mkdir(mode=0o755)
        key = self.folder / "key"
        key.mkdir(mode=0o700)
        (key / "munge.key").write_bytes(os.urandom(128))
        (key / "munge.key").chmod(0o600)
        self.daemon(self.left, "munged", "--foreground", f"--key-file={key}/munge.key", f"--socket={folder}/socket",
                    f"--pid-file={folder}/pid", f"--log-file={folder}/log", f"--seed-file={folder}/seed")
        end = time.monotonic() + START
        while not (folder / "socket").exists():
            if time.monotonic() > end:
                raise RuntimeError("munged does not start\n" + self.logs())
            time.sleep(0.05)

    def daemon(self, machine, name, *words):
        with open(self.folder / f"{name}-{machine.name}.said", "wb") as said:
            self.daemons.append(subprocess.Popen(machine.command(find(name), *words), env=self.environment(), cwd=self.folder,
                                                 stdin=subprocess.DEVNULL, stdout=said, stderr=said))

    def environment(self):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH", "SRUN"))}
        return {**kept, "SLURM_CONF": str(self.configuration)}

    def states(self):
        done = subprocess.run(self.left.command("sinfo", "-h", "-N", "-p", "main", "-o", "%T"), env=self.environment(), capture_output=True, text=True)
        return set(done.stdout.split())

    def logs(self):
        files = [*self.folder.glob("*.log"), *self.folder.glob("*.said"), *self.folder.glob("munge/log")]
        return "\n".join(f"{file.name}:\n{file.read_text(errors='replace')[-3000:]}" for file in files)

    def close(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in reversed(self.daemons):
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.network.close()
        shutil.rmtree(self.folder, ignore_errors=True)


if __name__ == "__main__":  # a shell on the first node, for trying things by hand: cluster.py COMMAND...
    enter(sys.executable)
    with_it = Cluster()
    try:
        code = subprocess.run(with_it.left.command(*(sys.argv[1:] or ["bash"])), env=with_it.environment()).returncode
    finally:
        if os.environ.get("SHOW_LOGS"):
            print(with_it.logs())
        with_it.close()
    sys.exit(code)
