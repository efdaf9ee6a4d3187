//! `graph`: who needs whom.

use crate::context::{CommandResult, Context};
use crate::error::CliError;
use crate::graph::{Graph, GroupBy, Link, NODES, Node, drawing, tree};
use crate::marks::{ResourceStatus, count};
use crate::reading::{At, Reading};
use clap::ValueEnum;
use serde::Serialize;
use state_core::Address;

/// Draw who needs whom, as a tree, or for Graphviz or Mermaid. Siblings are one node: `name x37`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Draw what is near this entry, or near these siblings.
    #[arg(long, value_name = "ADDR")]
    around: Option<Address>,
    /// How many steps away from it.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "around")]
    depth: usize,
    /// How nodes are grouped.
    #[arg(long, value_enum, default_value_t = GroupBy::Module, value_name = "WHAT")]
    group_by: GroupBy,
    /// How it is drawn.
    #[arg(long, value_enum, default_value_t = Format::Tree)]
    format: Format,
    #[command(flatten)]
    at: At,
}

/// How a graph is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Indented text.
    Tree,
    /// Graphviz.
    Dot,
    /// Mermaid.
    Mermaid,
}

#[derive(Serialize)]
struct Drawn<'a> {
    #[serde(flatten)]
    standing: ResourceStatus,
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

/// Draws.
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
            "a graph of {} nodes can't be read; {NODES} is the limit",
            graph.nodes.len()
        );
        return Err(CliError::refused(reading.place(), &message)
            .with_hint("draw a part of it: `statectl graph --around ADDR --depth 2`"));
    }
    let mut warnings = reading.standing.warnings();
    if graph.omitted > 0 {
        warnings.push(format!(
            "{} further away left out",
            count(graph.omitted, "node is", "nodes are")
        ));
    }
    let name = |at: usize| &*graph.nodes[at].name;
    let edge = |&(from, to, link): &(usize, usize, Link)| EdgeView {
        from: name(from),
        to: name(to),
        link,
    };
    let drawn = Drawn {
        standing: reading.standing,
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
