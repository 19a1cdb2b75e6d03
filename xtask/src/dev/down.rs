//! `cargo xtask down`.

use anyhow::Result;

use super::DevBrain;
use crate::mongo;

pub(crate) async fn run() -> Result<()> {
    let ran = DevBrain::new().end().await?;
    println!("brain: {}", if ran { "stopped" } else { "none runs" });
    print!("mongod: ");
    mongo::run(mongo::Command::Stop).await
}
