//! The argument string of an SDT note: `8@%rax -4@-20(%rbp) 4@$7`.

use serde::Serialize;

/// Most arguments that `sys/sdt.h` can give a probe (`STAP_PROBE12`).
const MAX_ARGS: usize = 12;

/// One argument of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Operand {
    /// Bytes; `None` where the note does not say (old `sdt.h`): then a machine word.
    pub size: Option<u8>,
    /// Signed integer.
    pub signed: bool,
    /// Floating point.
    pub float: bool,
    /// Where the value is, in the assembler's syntax: `%rax`, `-20(%rbp)`, `$7`, `[sp, 60]`.
    pub text: String,
}

/// Parses the argument string. Anything that is not understood is kept as text: it only matters
/// once somebody reads the argument.
pub fn parse(args: &str) -> Vec<Operand> {
    let mut operands: Vec<Operand> = Vec::new();
    for word in args.split_ascii_whitespace() {
        let operand = sized(word);
        // `8@[sp, 60]` of ARM: the operand itself contains a blank.
        if let Some(open) = operands.last_mut().filter(|last| open_bracket(&last.text))
            && operand.is_none()
        {
            open.text.push(' ');
            open.text.push_str(word);
            continue;
        }
        if operands.len() == MAX_ARGS {
            break;
        }
        let plain = || Operand {
            size: None,
            signed: false,
            float: false,
            text: word.to_owned(),
        };
        operands.push(operand.unwrap_or_else(plain));
    }
    operands
}

/// `N@text`, `-N@text`, `Nf@text`.
fn sized(word: &str) -> Option<Operand> {
    let (spec, text) = word.split_once('@')?;
    let (signed, spec) = spec.strip_prefix('-').map_or((false, spec), |s| (true, s));
    let (float, digits) = spec.strip_suffix('f').map_or((false, spec), |s| (true, s));
    if text.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let size: u8 = digits.parse().ok()?;
    Some(Operand {
        size: Some(size),
        signed,
        float,
        text: text.to_owned(),
    })
}

fn open_bracket(text: &str) -> bool {
    let count = |wanted: &[char]| text.chars().filter(|c| wanted.contains(c)).count();
    count(&['[', '(']) > count(&[']', ')'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn operand(size: u8, signed: bool, text: &str) -> Operand {
        Operand {
            size: Some(size),
            signed,
            float: false,
            text: text.into(),
        }
    }

    #[test]
    fn what_compilers_write() {
        assert_eq!(
            parse("8@%rax -4@-20(%rbp) 4@$-7 8@16(%rsp,%rcx,8)"),
            [
                operand(8, false, "%rax"),
                operand(4, true, "-20(%rbp)"),
                operand(4, false, "$-7"),
                operand(8, false, "16(%rsp,%rcx,8)")
            ]
        );
        assert_eq!(
            parse("8@[sp, 60] -4@x3"),
            [operand(8, false, "[sp, 60]"), operand(4, true, "x3")]
        );
        assert_eq!(
            parse("8f@%xmm0"),
            [Operand {
                float: true,
                ..operand(8, false, "%xmm0")
            }]
        );
        assert_eq!(
            parse("%rdi").first().map(|o| (o.size, o.text.as_str())),
            Some((None, "%rdi"))
        );
        assert_eq!(parse(""), []);
        assert_eq!(parse(&"8@%rax ".repeat(1000)).len(), MAX_ARGS);
    }

    proptest! {
        #[test]
        fn never_panics_and_stays_bounded(args in "[-0-9@%$(),a-z \\[\\]f]{0,200}") {
            prop_assert!(parse(&args).len() <= MAX_ARGS);
        }
    }
}
