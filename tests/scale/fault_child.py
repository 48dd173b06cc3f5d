"""A program that uses a cluster until it is killed: `python fault_child.py FOLDER SEED COMMAND [--address ADDRESS]`.

feed    do all steps of the world
late    begin to feed the part that comes late, and die as soon as it has its number
move    feed everything, then re-encode it in small slices
judge   feed everything, and compare the cluster with one table
node    all of that on three nodes, one of which is lost on the way

Without an address, it starts a Ray of its own. It prints a line at each step on its way, and "right" at its end.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.scale.fault_search import Moment, Searches
from tests.scale.fault_world import STORIES, Oracle, World, demand
from tests.scale.ray_processes import descendants, kill, start_ray

from hashstream.scale import Cluster
from hashstream.scale import cluster as cluster_module
from hashstream.scale.writing import Storer

SLICE = 8  # items that are re-encoded at a time, so that a move takes long
PATIENCE = 150.0  # seconds within which a lost node has to be replaced


def say(*what: Any) -> None:
    print(*what, flush=True)


def feed(world: World, folder: Path, cluster: Cluster) -> None:
    world.feed(cluster, folder, tell=lambda *_: say("step"))


def late(world: World, folder: Path, cluster: Cluster) -> None:
    def die(*_: Any, **__: Any) -> Any:
        say("begun")
        os.kill(os.getpid(), signal.SIGKILL)

    Storer.send = die  # type: ignore[method-assign]
    cluster.feed([world.part(folder, world.late)], name="late")


def move(world: World, folder: Path, cluster: Cluster) -> None:
    world.feed(cluster, folder)
    say("moving")
    at_each_slice(cluster, lambda: say("slice"))
    cluster.refresh()


def at_each_slice(cluster: Cluster, tell: Callable[[], None]) -> None:
    """Re-encode in small slices, and call a function before each."""
    cluster_module.SLICE = SLICE
    write_each = cluster._members.write_each

    def told(method: str, arguments: Any) -> Any:
        if method == "refresh":
            tell()
        return write_each(method, arguments)

    cluster._members.write_each = told  # type: ignore[method-assign]


def judge(world: World, folder: Path, cluster: Cluster) -> None:
    world.feed(cluster, folder)
    Oracle(world).judge(cluster)


def node(world: World, folder: Path, ray_folder: str) -> None:
    """A node is lost while searches go on and parts are fed. Where shards belong to nodes, another one takes its place;
    otherwise its shards restart on those that are left."""
    os.environ["RAY_TMPDIR"] = ray_folder  # where the nodes leave a note of their address
    import ray
    from ray.cluster_utils import Cluster as Nodes

    own = Path(ray_folder) / "ray"
    own.mkdir()
    common = {"node_ip_address": "127.0.0.2", "object_store_memory": 80 << 20, "include_dashboard": False}
    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 1, "temp_dir": str(own), **common})
    bound = world.seed // len(STORIES) % 2 == 0
    names = ("one", "two")
    workers = [nodes.add_node(num_cpus=1, resources={name: 1}, **common) for name in names]
    ray.init(address=nodes.address, log_to_driver=False, logging_level="error", namespace="hashstream")
    say("nodes")
    cluster = world.open(folder / "cluster", nodes.address, nodes=names if bound else None, timeout=PATIENCE)
    world.feed(cluster, folder, world.half)
    oracle, done = Oracle(world), len(world.steps)
    shards = set(cluster.shard_pids())
    inside = {at: descendants(processes_of(worker)) for at, worker in enumerate(workers)}
    lost = max(inside, key=lambda at: len(shards.intersection(inside[at])))
    demand(shards.intersection(inside[lost]), "no shard is on a node that can be lost")
    with Searches(cluster, world.Q, lambda hits, k: oracle.explain(hits, k, world.half, done)) as searches:
        moment = Moment(world.moment)
        feeding = threading.Thread(target=lambda: world.feed(cluster, folder, tell=moment.tell))
        feeding.start()
        moment.wait()
        nodes.remove_node(workers[lost], allow_graceful=False)
        for process in inside[lost]:
            kill(process)
        say("killed", "" if feeding.is_alive() else "too late")
        if bound:
            nodes.add_node(num_cpus=1, resources={names[lost]: 1}, **common)
        feeding.join(2 * PATIENCE)
        demand(not feeding.is_alive(), "feeding does not go on after a node was lost")
        searches.wait(2)
    say("found", json.dumps(searches.found.figures()))
    world.feed(cluster, folder)
    oracle.judge(cluster)
    cluster.stop()
    ray.shutdown()
    nodes.shutdown()


def processes_of(node: Any) -> list[int]:
    """The processes that a node of Ray has started itself."""
    return [one.process.pid for every in node.all_processes.values() for one in every]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("seed", type=int)
    parser.add_argument("command", choices=["feed", "late", "move", "judge", "node"])
    parser.add_argument("--address")
    parser.add_argument("--ray", default="", help="a folder of short path for a Ray of its own")
    chosen = parser.parse_args()
    world = World.of(chosen.seed)
    if chosen.command == "node":
        node(world, chosen.folder, chosen.ray)
    else:
        address = chosen.address or start_ray(chosen.ray)
        with world.open(chosen.folder / "cluster", address) as cluster:
            say("open")
            globals()[chosen.command](world, chosen.folder, cluster)
    say("right")


if __name__ == "__main__":
    main()
