"""All-reduce between two processes of one machine: shared memory beside Gloo and, where it is installed, Open MPI."""

import shutil

from bench_common import Contestant

SIZES = {4 << 10: "4 KiB", 64 << 10: "64 KiB", 1 << 20: "1 MiB", 16 << 20: "16 MiB", 64 << 20: "64 MiB"}
SMALL, LARGE = 4 << 10, 64 << 20
MOST_SMALL = 3.0  # microseconds
PLACED = 1 << 20  # large enough to be reduced in place in the group's memory
LEAST_LARGE = 1.5  # of Gloo's rate
MPI_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}


def comm(bench):
    seconds = 0.3 if bench.quick else 0.6
    plugins = {path.stem.removeprefix("plait-comm-"): path for path in bench.build.glob("lib/plait/plugins-*/plait-comm-*.so")}
    if "shm" not in plugins:
        bench.notes.append("comm: this build has no plait-comm-shm")
        return
    backends = [name for name in ("shm", "gloo") if name in plugins]
    contestants = [Contestant(name, [bench.program("comm"), plugins[name], seconds]) for name in backends]
    if bench.program("comm_gloo").exists():
        contestants.append(Contestant("libgloo", [bench.program("comm_gloo"), seconds]))
    else:
        bench.notes.append("comm: libgloo is not installed (Debian: libgloo-dev), so its own ring is left out")
    mpirun = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    if bench.program("comm_mpi").exists() and mpirun:
        command = [mpirun, "-n", "2", bench.program("comm_mpi"), seconds]
        contestants.append(Contestant("MPI", command, MPI_ENVIRONMENT))
    else:
        bench.notes.append("comm: no mpirun with an MPI compiler here, so MPI is left out")
    placed = Contestant("shm, in its memory", [bench.program("comm"), plugins["shm"], seconds, "memory"])
    bench.alternate([*contestants, placed], "all-reduce")
    shm, *peers = contestants
    for size, label in SIZES.items():
        own, figure = shm.median(str(size)), f"all-reduce of {label}, 2 processes"
        if size == SMALL:
            bench.at_most(figure, own, "µs", MOST_SMALL)
        for peer in peers:
            least = LEAST_LARGE if size == LARGE and peer.name == "libgloo" else None
            bench.against(figure, size / own / 1e3, "GB/s", peer.name, size / peer.median(str(size)) / 1e3, least)
        if size >= PLACED:
            own_rate, rate = size / own / 1e3, size / placed.median(str(size)) / 1e3
            bench.against(f"{figure}, in place in the group's memory", rate, "GB/s", "elsewhere", own_rate, None)
