//! What `docs/faults.md` says around its tables.

use cachekit_faults::Document;

const INTRODUCTION: &str = "\
# What happens when the server fails

Written by `cargo test -p cachekit-faults`, which starts real servers, breaks them, and asks caches that stand on them. It
fails when anything here is not what happens any more, and writes what does: change the code or commit the new text, but
do not edit it.

## How to read it

Each operation is asked of a cache of its own, with the default settings and a connection of its own, for keys that the
server had before the fault and that L1 does not hold. `build` is a process that starts during the fault. `get_or_compute`
stands for `fetch` too, which tells what is written here.

- `hit`: the backend had it; `hit (L1)`: this process had it. `miss`: nothing was found; `computed`: neither was then, and
  the caller has the function's value. What follows in parentheses is the reason, as in metrics and health.
- `stored`, `L1 only`, `skipped`: what a `set`, or the write after a computation, says. `L1 only` is readable in this
  process, and the backend is not asked for the key until a write succeeds.
- `error`: only a `delete` (and a `clear`) fails, with the kind of the error. This process does not serve the entry any
  more; the backend may still hold it. `may be applied`: or it may not.
- An outcome without a time came at once: within 100 ms, or 350 on a busy machine. `after one timeout`: it waited for an
  answer in vain, at most the operation timeout of 500 ms. `after the connect timeout`: the call had the backend built, and
  waited for a connection, at most 1 s (2 s for a cluster; 500 ms for memcached, which is `after one timeout` too). `then`:
  later calls got something else than the first ones.
- Several outcomes with `or`: which one depends on the moment.
- The recovery is counted from the moment at which the server answers again, until reads and writes reach it again and go
  on doing so.

## What holds in every row

All of this is asserted, for each call:

- No call takes longer than one operation timeout (500 ms) and its function. The first one, which has the backend built,
  may also take the connect timeout (for sled, the build timeout). A busy machine gets 400 ms more.
- No `get`, `set` or `get_or_compute` fails because of the backend. The function runs once when no tier has the value. In
  each scenario, eight callers of one key at once share one run, and a function's own error reaches its caller as it is.
- Every value carries its key and its version: none was another key's, damaged, or never written. After each scenario every
  key is read again, from L1 and then from the backend, by the processes that lived through it and by a new one.
- Nothing older than the last `set` or `delete` that returned, with whatever result, is served to the process that called
  it. The only exceptions are the rows that read `an older value`: **a server that goes back in time takes its caches with
  it.** A failover to a replica that lagged behind, and a restart from an older snapshot, undo what the server had
  acknowledged: a deleted value is there again, an overwritten one is the older one again. No cache in front of it can know.
  L1 serves what this process wrote until its time is over. Where that matters, give entries a short time to live. (Besides,
  a process that writes more than 10,000 keys during one outage forgets which were the first of them.)

Not shown: a name that leads to another server after a while (it would take a name server of our own), a network that
loses packets, a host that loses power.
";

pub(crate) fn document() -> Document {
    Document::new(INTRODUCTION)
        .section(
            "Redis",
            "A backend that is built reconnects by itself, and its circuit stays closed unless operation errors are counted: it\n\
             gives up a connection after three timeouts in a row, and fails at once from then on. One that could not be built\n\
             is built by the next call, or after five failures by the first one after the circuit breaker's cooldown (2.5 s\n\
             here, 30 s by default).\n",
        )
        .section("Redis with TLS", "A certificate that does not fit is a wrong setting: `config_invalid`. Besides, the faults of any Redis.\n")
        .section(
            "Redis cluster",
            "Six nodes, three shards, a replica of each; a node that is silent for 1.5 s is given up by the others. The recovery\n\
             is counted from the moment at which the new master takes writes.\n",
        )
        .section(
            "Redis behind sentinels",
            "A master, a replica and three sentinels; a master that is silent for 1 s is given up. The recovery is counted from\n\
             the moment at which the new master takes writes.\n",
        )
        .section(
            "memcached",
            "One server, where nothing else is said. After three failures in a row it is left alone for a second, and calls fail at\n\
             once. It forgets everything when it restarts.\n",
        )
        .section("sled", "Embedded: there is no server. Other damage, and a full disk, are in the tests of `cachekit-sled`.\n")
}
