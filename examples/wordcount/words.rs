//! What a word is, and finding the words of a text that is cut into parts.
//!
//! A word is a longest run of letters and digits (`char::is_alphanumeric`), in lower case. Bytes that are no valid UTF-8
//! separate words like a blank. Of a run longer than [`LONGEST`] bytes the first [`LONGEST`] bytes are the word, so that a
//! megabyte of base64 is not one.
//!
//! A text may be cut anywhere: a word belongs to the part in which it begins. Whoever looks at a part must therefore see
//! [`BEFORE`] bytes in front of it, to know whether it begins within a word, and [`AFTER`] bytes behind it, to read its last
//! word to the end.

use std::ops::Range;

/// Longest word, in bytes of the text.
pub const LONGEST: usize = 64;
/// The longest UTF-8 sequence: one character before the part.
pub const BEFORE: usize = 4;
/// A word that begins at the last byte of a part, and the rest of a character that does not fit it any more.
pub const AFTER: usize = LONGEST + 4;

/// A lower-case letter may take more bytes than its upper-case one, by at most half: `Ⱥ` has 2 bytes, `ⱥ` has 3.
const BUFFER: usize = 2 * LONGEST;

/// An ASCII byte between words.
const BLANK: u8 = 0;
/// The first byte of something that is not ASCII.
const OTHER: u8 = 0xff;

/// For each byte: the lower-case letter or the digit, [`BLANK`] or [`OTHER`].
static KIND: [u8; 256] = {
    let mut kind = [BLANK; 256];
    let mut byte = 0;
    while byte < 256 {
        if (byte as u8).is_ascii_alphanumeric() {
            kind[byte] = (byte as u8).to_ascii_lowercase();
        } else if byte >= 0x80 {
            kind[byte] = OTHER;
        }
        byte += 1;
    }
    kind
};

/// Calls `found` for every word that begins in `text[part]`, in order. What lies around the part in `text` is only looked at.
pub fn words(text: &[u8], part: Range<usize>, mut found: impl FnMut(&[u8])) {
    let mut at = first_start(text, part.start);
    let mut word = [0; BUFFER];
    while at < part.end {
        match KIND[text[at] as usize] {
            BLANK => at += 1,
            OTHER => match character(&text[at..]) {
                Some((c, _)) if c.is_alphanumeric() => at = one_word(text, at, &mut word, &mut found),
                Some((_, len)) => at += len,
                None => at += 1,
            },
            _ => at = one_word(text, at, &mut word, &mut found),
        }
    }
}

/// Reads the word at `start` and returns where its run ends.
#[inline(always)]
fn one_word(text: &[u8], start: usize, word: &mut [u8; BUFFER], found: &mut impl FnMut(&[u8])) -> usize {
    // Nearly all words are ASCII from end to end, and short.
    let short = &text[start..text.len().min(start + LONGEST)];
    let mut len = 0;
    for &byte in short {
        let kind = KIND[byte as usize];
        if kind == BLANK {
            found(&word[..len]);
            return start + len;
        }
        if kind == OTHER {
            break;
        }
        word[len] = kind;
        len += 1;
    }
    rest_of_word(text, start, len, word, found)
}

/// Reads on in a word of which the first `len` bytes, all ASCII, are done.
#[cold]
fn rest_of_word(
    text: &[u8],
    start: usize,
    mut len: usize,
    word: &mut [u8; BUFFER],
    found: &mut impl FnMut(&[u8]),
) -> usize {
    let mut at = start + len;
    while let Some((c, bytes)) = character(&text[at..])
        && c.is_alphanumeric()
    {
        at += bytes;
        if at - start <= LONGEST {
            for lower in c.to_lowercase() {
                len += lower.encode_utf8(&mut word[len..]).len();
            }
        }
    }
    found(&word[..len]);
    at
}

/// Where the first word that begins at or after `start` can begin: behind the word that reaches over `start`, if one does.
fn first_start(text: &[u8], start: usize) -> usize {
    for before in start.saturating_sub(BEFORE)..start {
        if let Some((c, len)) = character(&text[before..])
            && before + len >= start
        {
            let mut at = before + len;
            if c.is_alphanumeric() {
                while let Some((c, len)) = character(&text[at..])
                    && c.is_alphanumeric()
                {
                    at += len;
                }
            }
            return at;
        }
    }
    start
}

/// The character at the beginning of `text` and its length, or `None` at the end and where there is no valid character.
#[inline]
fn character(text: &[u8]) -> Option<(char, usize)> {
    let &first = text.first()?;
    let len = match first {
        0..0x80 => return Some((char::from(first), 1)),
        0xc2..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf5 => 4,
        _ => return None,
    };
    let c = std::str::from_utf8(text.get(..len)?).ok()?.chars().next()?;
    Some((c, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, by the standard library, for texts without long words.
    fn defined(text: &[u8]) -> Vec<String> {
        String::from_utf8_lossy(text)
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(|word| word.chars().flat_map(char::to_lowercase).collect())
            .collect()
    }

    /// The words of `text` when it is cut at `cuts`, and every part sees no more around it than it must.
    fn cut(text: &[u8], cuts: &[usize]) -> Vec<String> {
        let mut found = Vec::new();
        let mut start = 0_usize;
        for &end in cuts.iter().chain([&text.len()]) {
            let seen = start.saturating_sub(BEFORE)..text.len().min(end + AFTER);
            let part = start - seen.start..end - seen.start;
            words(&text[seen], part, |word| found.push(String::from_utf8(word.to_vec()).unwrap()));
            start = end;
        }
        found
    }

    /// A small generator, so that a failure can be repeated.
    struct Random(u64);

    impl Random {
        fn below(&mut self, n: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % n as u64) as usize
        }
    }

    /// Letters and separators of one to four bytes, and bytes that are no character.
    const PIECES: [&[u8]; 20] = [
        b"a",
        b"Q",
        b"7",
        b" ",
        b"\n",
        b"_",
        "\u{e9}".as_bytes(),
        "\u{130}".as_bytes(),
        "\u{23a}".as_bytes(),
        "\u{ab}".as_bytes(),
        "\u{4e2d}".as_bytes(),
        "\u{2014}".as_bytes(),
        "\u{3a3}".as_bytes(),
        "\u{1d518}".as_bytes(),
        "\u{1f600}".as_bytes(),
        b"\x80",
        b"\xff",
        b"\xe4\xb8",
        b"\xf0\x9d",
        b"\xc0\xaf",
    ];

    #[test]
    fn the_words_are_those_of_the_definition() {
        let text = "Don't panic: it's 42—Straße, ÉTÉ; naïve_name \u{1d518}x. ΣΑΣ";
        let expected = ["don", "t", "panic", "it", "s", "42", "straße", "été", "naïve", "name", "\u{1d518}x", "σασ"];
        assert_eq!(cut(text.as_bytes(), &[]), expected);
        assert_eq!(defined(text.as_bytes()), expected);
    }

    #[test]
    fn cutting_a_text_anywhere_changes_nothing() {
        let mut random = Random(0x1234_5678_9abc_def1);
        for round in 0..20_000 {
            let mut text = Vec::new();
            for _ in 0..random.below(30) {
                text.extend_from_slice(PIECES[random.below(PIECES.len())]);
            }
            let whole = cut(&text, &[]);
            assert_eq!(whole, defined(&text), "round {round}: {text:?}");
            for at in 0..=text.len() {
                assert_eq!(cut(&text, &[at]), whole, "round {round}: {text:?} cut at {at}");
            }
            let mut cuts: Vec<usize> = (0..random.below(6)).map(|_| random.below(text.len() + 1)).collect();
            cuts.sort_unstable();
            assert_eq!(cut(&text, &cuts), whole, "round {round}: {text:?} cut at {cuts:?}");
        }
    }

    #[test]
    fn a_word_is_never_longer_than_the_longest() {
        for (letter, kept) in [("x", LONGEST), ("é", LONGEST / 2), ("中", LONGEST / 3), ("Ⱥ", LONGEST / 2)] {
            for len in [kept - 1, kept, kept + 1, 10 * LONGEST] {
                let text = format!("a {} b", letter.repeat(len));
                let expected = ["a", &letter.to_lowercase().repeat(len.min(kept)), "b"];
                assert_eq!(cut(text.as_bytes(), &[]), expected);
                for at in 0..text.len() {
                    assert_eq!(cut(text.as_bytes(), &[at]), expected, "{len} times {letter} cut at {at}");
                }
            }
        }
    }

    #[test]
    fn an_empty_part_has_no_words() {
        assert!(cut(b"", &[]).is_empty());
        assert_eq!(cut(b"abc", &[0, 0, 1, 1, 3, 3]), ["abc"]);
    }
}
