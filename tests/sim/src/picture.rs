//! A run as one SVG page: load, memory, local share, moves, swaps and bytes migrated over time.

use crate::record::Record;
use std::fmt::Write;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 110.0;
const LEFT: f64 = 70.0;

/// One curve: name and values, parallel to the samples.
type Curve = (String, Vec<f64>);

/// Draws the samples. Panels: CPUs wanted by node, memory by node of each group (at most four), local share by group,
/// moves and swaps, gigabytes migrated.
pub fn svg(title: &str, record: &Record, nodes: usize) -> String {
    let times: Vec<f64> = record.samples.iter().map(|s| s.at).collect();
    let curve = |name: String, f: &dyn Fn(&crate::record::Sample) -> f64| -> Curve {
        (name, record.samples.iter().map(f).collect())
    };
    let groups = record.samples.first().map_or(0, |s| s.memory.len());
    let mut panels: Vec<(String, Vec<Curve>)> = Vec::new();
    panels.push((
        "CPUs wanted, by node".into(),
        (0..nodes).map(|i| curve(format!("node {i}"), &|s| s.load[i])).collect(),
    ));
    for g in 0..groups.min(4) {
        panels.push((
            format!("group {g}: GB by node"),
            (0..nodes).map(|i| curve(format!("node {i}"), &|s| s.memory[g][i] / 1e9)).collect(),
        ));
    }
    panels.push((
        "local share, by group".into(),
        (0..groups).map(|g| curve(format!("group {g}"), &|s| s.local[g])).collect(),
    ));
    panels.push((
        "home changes so far".into(),
        vec![curve("moves".into(), &|s| s.moves as f64), curve("swapped".into(), &|s| s.swaps as f64)],
    ));
    panels.push(("GB migrated".into(), vec![curve("GB".into(), &|s| s.migrated / 1e9)]));
    let total = 50.0 + panels.len() as f64 * (HEIGHT + 45.0);
    let mut out = String::new();
    let _ = writeln!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{:.0}" height="{total:.0}" font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/><text x="{LEFT}" y="24" font-size="16">{}</text>"##,
        WIDTH + LEFT + 150.0,
        escape(title)
    );
    for (k, (name, curves)) in panels.iter().enumerate() {
        panel(&mut out, 50.0 + k as f64 * (HEIGHT + 45.0), name, curves, &times);
    }
    out.push_str("</svg>\n");
    out
}

fn panel(out: &mut String, top: f64, name: &str, curves: &[Curve], times: &[f64]) {
    let most = curves.iter().flat_map(|c| &c.1).copied().fold(0.0, f64::max).max(1e-9);
    let end = times.last().copied().unwrap_or(1.0).max(1e-9);
    let bottom = top + HEIGHT;
    let _ = writeln!(
        out,
        r##"<text x="{LEFT}" y="{:.0}">{}</text><path d="M{LEFT} {top:.0}V{bottom:.0}H{:.0}" fill="none" stroke="#888"/><text x="8" y="{:.0}">{most:.4}</text><text x="8" y="{bottom:.0}">0</text><text x="{:.0}" y="{:.0}">{end:.0} s</text>"##,
        top - 6.0,
        escape(name),
        LEFT + WIDTH,
        top + 10.0,
        LEFT + WIDTH - 20.0,
        bottom + 14.0
    );
    for (i, (name, values)) in curves.iter().enumerate() {
        let colour = format!("hsl({} 70% 42%)", i * 360 / curves.len().max(1));
        let points: String = values.iter().zip(times).fold(String::new(), |mut line, (v, t)| {
            let _ = write!(line, "{:.1},{:.1} ", LEFT + t / end * WIDTH, bottom - v / most * HEIGHT);
            line
        });
        let _ = writeln!(
            out,
            r##"<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.3"/><text x="{:.0}" y="{:.0}" fill="{colour}">{}</text>"##,
            LEFT + WIDTH + 12.0,
            top + 10.0 + 12.0 * i as f64,
            escape(name)
        );
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
