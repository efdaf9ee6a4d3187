//! The command `graph`: prints the dependencies between resources.

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::graph::{Graph, GroupBy, Link, NODES, Node, drawing, tree};
use crate::marks::{StackStatus, count};
use crate::reading::{At, Reading};
use clap::ValueEnum;
use serde::Serialize;
use state_core::Address;

/// Print the dependency graph
///
/// Prints a tree, or the source of a Graphviz or Mermaid drawing. Instances of one declaration are shown as one node:
/// `name x37`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only draw the neighbourhood of this resource
    #[arg(long, value_name = "ADDR")]
    around: Option<Address>,
    /// How many edges to follow from the `--around` resource
    #[arg(long, value_name = "N", default_value_t = 1, requires = "around")]
    depth: usize,
    /// How to group the nodes
    #[arg(long, value_enum, default_value_t = GroupBy::Module, value_name = "WHAT")]
    group_by: GroupBy,
    /// Format of the output
    #[arg(long, value_enum, default_value_t = Format::Tree)]
    format: Format,
    #[command(flatten)]
    at: At,
}

/// Output format of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tree as indented text
    Tree,
    /// Source of a Graphviz drawing
    Dot,
    /// Source of a Mermaid flowchart
    Mermaid,
}

#[derive(Serialize)]
struct GraphReport<'a> {
    #[serde(flatten)]
    status: StackStatus,
    center: Option<&'a str>,
    omitted: usize,
    nodes: &'a [Node],
    edges: Vec<EdgeView<'a>>,
}

#[derive(Serialize)]
struct EdgeView<'a> {
    from: &'a str,
    to: &'a str,
    link: Link,
}

/// Runs the command `graph` and returns its report.
pub(crate) async fn run(context: &Context, args: &Args) -> CommandResult {
    let reading = Reading::open(context, &args.at).await?;
    let center = args.around.as_ref();
    let graph = match (
        Graph::of(&reading.snapshot.entries, args.group_by, center),
        center,
    ) {
        (Some(graph), _) => graph.around(args.depth),
        (None, Some(address)) => return Err(reading.missing(address)),
        (None, None) => Graph::default(),
    };
    if graph.nodes.len() > NODES {
        let message = format!(
            "the graph has {} nodes, more than the limit of {NODES}",
            graph.nodes.len()
        );
        return Err(CliError::refused(reading.place(), &message)
            .with_hint("draw a part of the graph: `statectl graph --around ADDR --depth 2`"));
    }
    let mut warnings = reading.status.warnings();
    if graph.omitted > 0 {
        warnings.push(format!(
            "left out {} farther away",
            count(graph.omitted, "node", "nodes")
        ));
    }
    let name = |at: usize| &*graph.nodes[at].name;
    let edge = |&(from, to, link): &(usize, usize, Link)| EdgeView {
        from: name(from),
        to: name(to),
        link,
    };
    let drawn = GraphReport {
        status: reading.status,
        center: graph.center.map(name),
        omitted: graph.omitted,
        nodes: &graph.nodes,
        edges: graph.edges.iter().map(edge).collect(),
    };
    context.report("graph", &drawn, warnings, |page| match args.format {
        Format::Tree => tree::print(page, &graph),
        Format::Dot => drawing::print_dot(page, &graph),
        Format::Mermaid => drawing::print_mermaid(page, &graph),
    })
}
