//! Reads `expected.json`: `{tree: {"nodes": [{"id", "cpus", "mem_kb"}],
//! "distances": null | {"ids", "matrix"}}}`.
//!
//! A reader of thirty lines instead of a dependency: the file is ours and never
//! changes its form.

use std::collections::BTreeMap;

/// What a tree must give.
pub struct Expected {
    pub nodes: Vec<ExpectedNode>,
    /// The nodes of the rows and columns.
    pub ids: Vec<u32>,
    pub matrix: Vec<Vec<u32>>,
}

pub struct ExpectedNode {
    pub id: u32,
    pub cpus: Vec<u32>,
    pub mem_kb: u64,
}

pub fn read() -> BTreeMap<String, Expected> {
    let text = std::fs::read_to_string(super::recorded::data().join("expected.json")).unwrap();
    let Json::Object(trees) = Json::parse(&mut text.trim()) else {
        panic!("expected.json is an object");
    };
    trees.into_iter().map(|(name, t)| (name, tree(&t))).collect()
}

fn tree(json: &Json) -> Expected {
    let node = |n: &Json| ExpectedNode {
        id: n.field("id").number() as u32,
        cpus: n.field("cpus").numbers(),
        mem_kb: n.field("mem_kb").number(),
    };
    let nodes = json.field("nodes").items().iter().map(node).collect();
    let (ids, matrix) = match json.field("distances") {
        Json::Null => (Vec::new(), Vec::new()),
        distances => {
            (distances.field("ids").numbers(), distances.field("matrix").items().iter().map(Json::numbers).collect())
        }
    };
    Expected { nodes, ids, matrix }
}

enum Json {
    Null,
    Number(u64),
    Array(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

impl Json {
    /// Takes one value off the front of a text without blanks.
    fn parse(text: &mut &str) -> Json {
        let mut eat = |start: &str| {
            let rest = text.strip_prefix(start);
            *text = rest.unwrap_or(text);
            rest.is_some()
        };
        if eat("null") {
            return Json::Null;
        }
        if eat("[") {
            let mut items = Vec::new();
            while !text.starts_with(']') {
                items.push(Self::parse(text));
                *text = text.trim_start_matches(',');
            }
            *text = &text[1..];
            return Json::Array(items);
        }
        if eat("{") {
            let mut fields = BTreeMap::new();
            while !text.starts_with('}') {
                let (name, rest) = text[1..].split_once("\":").unwrap();
                *text = rest;
                fields.insert(name.to_owned(), Self::parse(text));
                *text = text.trim_start_matches(',');
            }
            *text = &text[1..];
            return Json::Object(fields);
        }
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = text.split_at(digits);
        *text = rest;
        Json::Number(number.parse().unwrap())
    }

    fn field(&self, name: &str) -> &Json {
        match self {
            Json::Object(fields) => &fields[name],
            _ => panic!("{name} of something that is no object"),
        }
    }

    fn items(&self) -> &[Json] {
        match self {
            Json::Array(items) => items,
            _ => panic!("no array"),
        }
    }

    fn number(&self) -> u64 {
        match self {
            Json::Number(number) => *number,
            _ => panic!("no number"),
        }
    }

    fn numbers(&self) -> Vec<u32> {
        self.items().iter().map(|n| n.number() as u32).collect()
    }
}
