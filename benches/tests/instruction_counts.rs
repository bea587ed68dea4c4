//! The hot paths by the number of instructions they take, which no other load on the machine changes.

use std::path::Path;
use std::process::Command;

/// The budgets stand in the script: a CLOSED admission with its success, an OPEN rejection, an L1 hit.
#[test]
fn s74_the_breaker_and_an_l1_hit_cost_what_their_budgets_say() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/instructions");
    let output = Command::new(script).output().expect("the script runs");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert!(said.contains("breaker-closed") && said.contains("l1-hit"), "{said}");
}
