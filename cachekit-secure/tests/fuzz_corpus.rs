//! The fuzz targets, run over the corpus and over a few thousand mutations of it, the same ones every time.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

#[path = "../fuzz/src/targets.rs"]
#[allow(unreachable_pub, reason = "the fuzzer's crate exports them")]
mod targets;

use std::fs;
use std::path::Path;
use support::{Noise, forge};

const MUTATIONS: usize = 3_000;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

fn mutate(noise: &mut Noise, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut data = seeds[noise.below(seeds.len())].clone();
    for _ in 0..=noise.below(4) {
        let at = noise.below(data.len() + 1);
        match noise.below(6) {
            0 if at < data.len() => data[at] ^= 1 << noise.below(8),
            1 if at < data.len() => data[at] = noise.byte(),
            2 => data.insert(at, noise.byte()),
            3 => data.truncate(at),
            4 => {
                let other = &seeds[noise.below(seeds.len())];
                data.truncate(at);
                data.extend_from_slice(&other[noise.below(other.len() + 1)..]);
            }
            _ => data.extend_from_slice(&[0, 0xFF, 0xC1][..noise.below(4)]),
        }
    }
    data
}

fn run(name: &str, files: usize, target: fn(&[u8])) {
    let seeds = corpus(name);
    assert_eq!(seeds.len(), files, "files of the corpus of {name}");
    seeds.iter().for_each(|seed| target(seed));
    let mut noise = Noise(1);
    for _ in 0..MUTATIONS {
        target(&mutate(&mut noise, &seeds));
    }
}

#[test]
fn entry() {
    run("entry", 5, targets::entry);
}

#[test]
fn inflate() {
    run("inflate", 8, targets::inflate);
}

#[test]
fn key() {
    run("key", 9, targets::key);
}

#[test]
fn mutated() {
    run("mutated", 6, targets::mutated);
}
