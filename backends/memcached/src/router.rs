//! Which server has which key.
//!
//! Rendezvous hashing: each server draws a number for the key, and the highest has it. Without a server its keys go to
//! those that drew the next highest, and no other key moves. What is drawn depends on the key and on the server's name
//! alone, and never changes: it is what a fleet of processes, of any version, has to agree on.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

#[derive(Debug)]
pub(crate) struct Router {
    seeds: Vec<u64>,
}

impl Router {
    /// A router for servers of these names, which differ and are in alphabetical order.
    pub(crate) fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self { seeds: names.into_iter().map(|name| xxh3_64(name.as_bytes())).collect() }
    }

    /// The place of the server that has this key.
    pub(crate) fn place(&self, key: &str) -> usize {
        if self.seeds.len() == 1 {
            return 0;
        }
        let draw = |seed: u64| xxh3_64_with_seed(key.as_bytes(), seed);
        self.seeds.iter().enumerate().max_by_key(|(_, seed)| draw(**seed)).map_or(0, |(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 3] = ["cache-a:11211", "cache-b:11211", "cache-c:11211"];

    /// Pinned for ever: a change here moves a fleet's keys.
    #[test]
    fn the_choice_is_the_same_in_every_version() {
        let router = Router::new(NAMES);
        let places: Vec<usize> = ["", "a", "users:42", "users:43", "users:44", "é", &"k".repeat(1_024), "\r\n"]
            .into_iter()
            .map(|key| router.place(key))
            .collect();
        assert_eq!(places, [1, 0, 0, 2, 1, 0, 0, 1]);
        let counted = (0..10_000).fold([0; 3], |mut counts, number| {
            counts[router.place(&format!("key:{number}"))] += 1;
            counts
        });
        assert_eq!(counted, [3312, 3294, 3394]);
    }

    #[test]
    fn a_server_less_moves_its_own_keys_only() {
        let all = Router::new(NAMES);
        for gone in 0..3 {
            let rest: Vec<&str> =
                NAMES.iter().enumerate().filter(|(place, _)| *place != gone).map(|(_, n)| *n).collect();
            let without = Router::new(rest.iter().copied());
            let mut taken = [0; 2];
            for number in 0..3_000 {
                let key = format!("key:{number}");
                let (before, after) = (all.place(&key), without.place(&key));
                if before == gone {
                    taken[after] += 1;
                } else {
                    assert_eq!(NAMES[before], rest[after], "{key}");
                }
            }
            assert!(taken.iter().all(|count| *count > 300), "its keys are spread over the others: {taken:?}");
        }
    }
}
