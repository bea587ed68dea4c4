//! A slow report about files, cached in two tiers: `cargo run --example quickstart [-- [--url URL] [--reset] [FILE...]]`.
//!
//! Run it twice: the first run computes, the second one finds every report in the backend, which by default is a
//! directory under `target/`. Change a file and only its report is computed again, since the key holds the file's path,
//! length and modification time.
#![allow(clippy::print_stderr, reason = "it talks to a person")]

use cachekit::{Cache, Fetched, Source, registry};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, UNIX_EPOCH};

#[tokio::main]
async fn main() -> ExitCode {
    match run(&mut io::stdout()).await {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads this has read enough.
        Err(error) if error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("quickstart: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let Some(options) = Options::parse(std::env::args_os().skip(1))? else {
        writeln!(out, "{USAGE}")?;
        return Ok(());
    };
    for file in &options.files {
        describe(file)?;
    }
    let cache = Cache::builder("quickstart")
        .default_ttl(Duration::from_secs(24 * 60 * 60))
        .backend(registry().factory(&options.url)?)
        .build()?;
    if options.reset {
        cache.clear().await?;
    }
    // Any call would have the backend built; this one keeps that time out of the first file's line.
    let start = Instant::now();
    cache.exists("anything").await?;
    let l2 = cache.health().l2;
    let l2 = l2.map_or("no backend".to_owned(), |l2| {
        let why = l2.last_error.map(|error| format!(" ({error}); going on without it")).unwrap_or_default();
        format!("{} is {}{why}", l2.backend, l2.status)
    });
    writeln!(out, "{l2}, after {:.1} ms", start.elapsed().as_secs_f64() * 1_000.0)?;
    for pass in 1..=2 {
        for file in &options.files {
            let key = describe(file)?;
            let start = Instant::now();
            let fetched = cache.fetch(&key, || report(file)).await?;
            let took = start.elapsed();
            writeln!(out, "pass {pass} {}", Line { file, fetched: &fetched, took })?;
        }
    }
    writeln!(out, "\nhealth: {}", serde_json::to_string_pretty(&cache.health())?)?;
    cache.close(Duration::from_secs(5)).await?;
    Ok(())
}

/// One file in one pass.
struct Line<'a> {
    file: &'a Path,
    fetched: &'a Fetched<Report>,
    took: Duration,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { words, most_often, longest_repeat, sha256, micros } = &self.fetched.value;
        let shown = std::env::current_dir().ok().and_then(|here| self.file.strip_prefix(here).ok());
        let took = self.took.as_secs_f64();
        write!(f, "{}: source={}", shown.unwrap_or(self.file).display(), self.fetched.source.as_str())?;
        if let Some(reason) = self.fetched.degraded {
            write!(f, " degraded={}", reason.as_str())?;
        }
        write!(f, " {:.3} ms", took * 1_000.0)?;
        if self.fetched.source != Source::Computed {
            write!(f, " (speed-up {:.0}x)", *micros as f64 / 1_000_000.0 / took.max(1e-9))?;
        }
        let digest = &sha256[..12];
        write!(f, " | {words} words, most often {most_often:?}, longest repeat {longest_repeat} bytes, sha256 {digest}")
    }
}

const USAGE: &str = "usage: cargo run --example quickstart [-- [--url URL] [--reset] [FILE...]]";

struct Options {
    url: String,
    reset: bool,
    files: Vec<PathBuf>,
}

impl Options {
    /// `None`: help was asked for.
    fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Option<Self>, String> {
        let home = Path::new(env!("CARGO_MANIFEST_DIR"));
        let url = format!("sled://{}", home.join("target/quickstart").display());
        let mut options = Self { url, reset: false, files: Vec::new() };
        while let Some(argument) = arguments.next() {
            match argument.to_str() {
                Some("--url") => {
                    let url = arguments.next().ok_or("--url takes a URL")?;
                    options.url = url.into_string().map_err(|_| "the URL is not text")?;
                }
                Some("--reset") => options.reset = true,
                Some("--help" | "-h") => return Ok(None),
                Some(flag) if flag.starts_with('-') => return Err(format!("unknown option {flag}; {USAGE}")),
                _ => options.files.push(argument.into()),
            }
        }
        if options.files.is_empty() {
            let ours = ["Cargo.lock", "README.md", "examples/quickstart.rs", "cachekit-core/src/backend/traits.rs"];
            options.files.extend(ours.map(|file| home.join(file)));
        }
        Ok(Some(options))
    }
}

/// The cache key: whatever changes the report changes the key.
fn describe(file: &Path) -> io::Result<String> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", file.display()));
    let metadata = std::fs::metadata(file).map_err(named)?;
    if !metadata.is_file() {
        return Err(named(io::Error::other("not a file")));
    }
    let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    // A path may be longer than a key, and is not always text: its digest is neither.
    let path = hex(&Sha256::digest(std::path::absolute(file)?.as_os_str().as_encoded_bytes()));
    Ok(format!("{path}:{}:{}", metadata.len(), modified.as_nanos()))
}

#[derive(Clone, Serialize, Deserialize)]
struct Report {
    words: usize,
    most_often: String,
    longest_repeat: usize,
    sha256: String,
    /// What it took to compute.
    micros: u64,
}

/// The work that is worth caching.
async fn report(file: &Path) -> io::Result<Report> {
    let file = file.to_owned();
    // Long computations do not belong on the threads of a runtime.
    let report = tokio::task::spawn_blocking(move || {
        let start = Instant::now();
        let bytes = std::fs::read(file)?;
        let text = String::from_utf8_lossy(&bytes);
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 3) {
            *counts.entry(word).or_default() += 1;
        }
        let most_often = counts.iter().max_by_key(|(word, count)| (**count, **word));
        Ok(Report {
            words: counts.values().sum(),
            most_often: most_often.map(|(word, _)| (*word).to_owned()).unwrap_or_default(),
            longest_repeat: longest_repeat(&bytes),
            sha256: hex(&Sha256::digest(&bytes)),
            micros: u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX),
        })
    });
    report.await.map_err(io::Error::other)?
}

/// The length of the longest passage that occurs twice: neighbours in the sorted list of all endings share the most.
fn longest_repeat(bytes: &[u8]) -> usize {
    // More than this would be no example any more.
    let bytes = &bytes[..bytes.len().min(256 << 10)];
    let mut endings: Vec<&[u8]> = (0..bytes.len()).map(|start| &bytes[start..]).collect();
    endings.sort_unstable();
    let shared = |pair: &[&[u8]]| pair[0].iter().zip(pair[1]).take_while(|(a, b)| a == b).count();
    endings.windows(2).map(shared).max().unwrap_or(0)
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
