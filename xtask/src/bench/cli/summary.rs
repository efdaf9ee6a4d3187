//! Tables of the results, in Markdown, so that they can be pasted into `docs/performance.md`.

use super::measure::Measurement;
use super::pairs::OwnCommand;

/// How many times faster than Terraform a command must be, in CPU time and in wall time.
const MIN_SPEED: f64 = 10.0;

/// How many times less memory than Terraform a command must need.
const MIN_MEMORY: f64 = 5.0;

/// The measurements of a command of both programs, one a round.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) ours: Vec<Measurement>,
    pub(super) terraform: Vec<Measurement>,
}

impl Row {
    pub(super) const fn new(name: &'static str) -> Self {
        Self {
            name,
            ours: Vec::new(),
            terraform: Vec::new(),
        }
    }

    /// The ratios of the rounds, Terraform's measurement by ours.
    fn ratios(&self, of: fn(&Measurement) -> f64) -> Vec<f64> {
        let rounds = self.terraform.iter().zip(&self.ours);
        rounds.map(|(theirs, ours)| of(theirs) / of(ours)).collect()
    }
}

/// The measurements of a command of ours and of the one that it is compared with.
pub(super) struct OwnRatio {
    command: &'static OwnCommand,
    measured: Vec<(Measurement, Measurement)>,
}

impl OwnRatio {
    pub(super) const fn new(command: &'static OwnCommand) -> Self {
        Self {
            command,
            measured: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, measured: Measurement, other: Measurement) {
        self.measured.push((measured, other));
    }
}

/// Prints the tables. A value in bold doesn't meet its limit.
#[expect(clippy::print_stdout, reason = "a benchmark prints its results")]
pub(super) fn print(rows: &[Row], own: &[OwnRatio]) {
    println!(
        "| command | ours: CPU s / wall s / MB | terraform: CPU s / wall s / MB | CPU ratio | wall ratio | memory ratio |"
    );
    println!("|---|---|---|---|---|---|");
    for row in rows {
        println!(
            "| {} | {} | {} | {} | {} | {} |",
            row.name,
            costs(&row.ours),
            costs(&row.terraform),
            at_least(&row.ratios(|one| one.cpu), MIN_SPEED),
            at_least(&row.ratios(|one| one.wall), MIN_SPEED),
            at_least(&row.ratios(|one| one.memory), MIN_MEMORY),
        );
    }
    println!("\n| command | CPU s / wall s / MB | CPU beside | ratio | limit |");
    println!("|---|---|---|---|---|");
    for OwnRatio { command, measured } in own {
        let ours: Vec<Measurement> = measured.iter().map(|(ours, _)| *ours).collect();
        let ratios: Vec<f64> = measured
            .iter()
            .map(|(ours, other)| ours.cpu / other.cpu)
            .collect();
        let middle = median(&ratios);
        println!(
            "| {} | {} | {} | {} | {} |",
            command.name,
            costs(&ours),
            command.beside,
            marked(&ratios, middle > command.limit),
            command.limit
        );
    }
}

fn costs(measured: &[Measurement]) -> String {
    if measured.is_empty() {
        return "skipped".to_owned();
    }
    let [cpu, wall, memory] = [
        |one: &Measurement| one.cpu,
        |one: &Measurement| one.wall,
        |one: &Measurement| one.memory,
    ]
    .map(|of: fn(&Measurement) -> f64| median(&measured.iter().map(of).collect::<Vec<_>>()));
    format!("{cpu:.3} / {wall:.3} / {memory:.0}")
}

fn at_least(ratios: &[f64], limit: f64) -> String {
    if ratios.is_empty() {
        return "skipped".to_owned();
    }
    let is_missed = median(ratios) < limit;
    marked(ratios, is_missed)
}

/// The median with its range.
fn marked(ratios: &[f64], is_missed: bool) -> String {
    let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let high = ratios.iter().copied().fold(0.0, f64::max);
    let middle = median(ratios);
    match is_missed {
        true => format!("**{middle:.1}** ({low:.1} to {high:.1})"),
        false => format!("{middle:.1} ({low:.1} to {high:.1})"),
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
