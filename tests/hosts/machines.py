"""Machines made of namespaces: each has a network, a host name and a /dev/shm of its own, and a cable to a switch.

They live in a user namespace of their own where this is not root, and in a mount and network namespace of their own in any case: so
nothing of them is left when the last process ends, however that happens.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
INSIDE = "PLAIT_TEST_MACHINES"


def enter(program):
    """Goes on in namespaces of its own: starts this program once more there. Ends it with SKIPPED where that is not to be had.
    `program` is what the test will run there, with files of its own beside it."""
    if os.environ.get(INSIDE):
        return
    missing = [tool for tool in ("unshare", "nsenter", "ip", "mount") if not shutil.which(tool)]
    if missing:
        skip(f"not installed: {', '.join(missing)} (Debian: util-linux, iproute2)")
    words = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        if os.stat(program).st_uid != os.geteuid():
            skip(f"{program} belongs to another user, who is nobody in a user namespace of ours")
        words += ["--user", "--map-root-user"]
    probe = [*words, "--", "sh", "-c", "ip link add probe0 type veth peer name probe1 && mount -t tmpfs none /dev/shm && unshare --uts true"]
    done = subprocess.run(probe, capture_output=True, text=True)
    if done.returncode != 0:
        skip(f"this system allows no namespaces: {done.stderr.strip()}")
    os.environ[INSIDE] = "1"
    os.execvp(words[0], [*words, "--", sys.executable, *sys.argv])


def skip(why):
    print("skipped:", why)
    sys.exit(SKIPPED)


def call(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")


class Machine:
    """One of them; its namespaces live as long as its first process."""

    def __init__(self, name, address):
        self.name, self.address = name, address
        self.first = subprocess.Popen(["unshare", "--net", "--mount", "--uts", "--", "sh", "-c",
                                       f"hostname {name} && mount -t tmpfs none /dev/shm && ip link set lo up && echo ready && exec sleep infinity"],
                                      stdout=subprocess.PIPE, text=True)
        if self.first.stdout.readline() != "ready\n":
            raise RuntimeError(f"machine {name} does not start")

    def command(self, *words):
        """Words that run a command there, in the current folder."""
        return ["nsenter", "-t", str(self.first.pid), "-n", "-m", "-u", f"--wd={os.getcwd()}", "--", *map(str, words)]

    @contextlib.contextmanager
    def deaf_to(self, other):
        """Meanwhile what this machine sends to the other is lost: it goes to an address that nobody has."""
        neighbour = [other.address, "dev", "eth0"]
        call(*self.command("ip", "neighbour", "replace", *neighbour, "lladdr", "02:00:00:00:00:99", "nud", "permanent"))
        try:
            yield
        finally:
            call(*self.command("ip", "neighbour", "delete", *neighbour))

    def close(self):
        self.first.kill()
        self.first.wait()
        self.first.stdout.close()


class Machines:
    """`names` on one switch; each knows the others by name. cut(name) pulls a cable, mend(name) puts it back."""

    def __init__(self, names):
        self.all = []
        self.folder = tempfile.TemporaryDirectory(prefix="plait-hosts-")
        hosts = pathlib.Path(self.folder.name, "hosts")
        addresses = {name: f"10.213.0.{i + 1}" for i, name in enumerate(names)}
        hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in addresses.items()))
        # Names are looked up in this file; the namespace is ours alone, and those of the machines are made from it.
        call("mount", "--bind", str(hosts), "/etc/hosts")
        self.make_switch()
        for name, address in addresses.items():
            machine = Machine(name, address)
            self.all.append(machine)
            self.connect(machine)
            call(*machine.command("ip", "address", "add", address + "/24", "dev", "eth0"))
            call(*machine.command("ip", "link", "set", "eth0", "up"))

    def make_switch(self):
        call("ip", "link", "add", "switch", "type", "bridge")
        call("ip", "link", "set", "switch", "up")

    def connect(self, machine):
        """Gives it a device eth0."""
        peer = ["peer", "name", "eth0", "netns", str(machine.first.pid)]
        call("ip", "link", "add", f"to-{machine.name}", "master", "switch", "type", "veth", *peer)
        call("ip", "link", "set", f"to-{machine.name}", "up")

    def remove_switch(self):
        call("ip", "link", "delete", "switch")

    def cut(self, name):
        call("ip", "link", "set", f"to-{name}", "down")

    def mend(self, name):
        call("ip", "link", "set", f"to-{name}", "up")

    def close(self):
        for machine in self.all:
            machine.close()
        self.remove_switch()
        call("umount", "/etc/hosts")
        self.folder.cleanup()
