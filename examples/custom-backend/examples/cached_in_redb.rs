//! A function cached in a redb file: run it twice.
use cachekit::{Cache, registry};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut registry = registry();
    cachekit_redb::register(&mut registry)?;
    let url = std::env::args().nth(1).unwrap_or("redb://target/example.redb".to_owned());
    let cache = Cache::builder("squares").backend(registry.factory(&url)?).build()?;
    let square = cache.fetch("12", || async { Ok::<_, std::io::Error>(12 * 12) }).await?;
    println!("{} ({})", square.value, square.source.as_str());
    Ok(cache.close(std::time::Duration::from_secs(5)).await?)
}
