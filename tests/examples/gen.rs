//! x
fn main() {
    std::fs::write(
        "/tmp/mem/large.tfstate",
        state_tests::large::terraform_state(100_000),
    )
    .unwrap();
    println!(
        "{} {}",
        std::mem::size_of::<state_core::Entry>(),
        std::mem::size_of::<state_core::Json>()
    );
}
