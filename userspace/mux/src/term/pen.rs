//! Writes cells as VT bytes, with as few attribute changes as it takes.

use std::ops::Range;

use alacritty_terminal::term::cell::{Cell, Flags, Hyperlink};
use alacritty_terminal::vte::ansi::Color;

/// The flags that are attributes, as opposed to notes about the layout.
const ATTRIBUTES: Flags = Flags::INVERSE
    .union(Flags::BOLD)
    .union(Flags::ITALIC)
    .union(Flags::DIM)
    .union(Flags::HIDDEN)
    .union(Flags::STRIKEOUT)
    .union(Flags::ALL_UNDERLINES);

/// Which parameter of SGR sets which attribute.
const SGR: [(Flags, &str); 11] = [
    (Flags::BOLD, ";1"),
    (Flags::DIM, ";2"),
    (Flags::ITALIC, ";3"),
    (Flags::UNDERLINE, ";4"),
    (Flags::DOUBLE_UNDERLINE, ";4:2"),
    (Flags::UNDERCURL, ";4:3"),
    (Flags::DOTTED_UNDERLINE, ";4:4"),
    (Flags::DASHED_UNDERLINE, ";4:5"),
    (Flags::INVERSE, ";7"),
    (Flags::HIDDEN, ";8"),
    (Flags::STRIKEOUT, ";9"),
];

/// The attributes that the terminal writes with at present.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pen {
    fg: Color,
    bg: Color,
    flags: Flags,
    underline: Option<Color>,
    link: Option<Hyperlink>,
}

impl Default for Pen {
    fn default() -> Self {
        Self::of(&Cell::default())
    }
}

impl Pen {
    fn of(cell: &Cell) -> Self {
        Self {
            fg: cell.fg,
            bg: cell.bg,
            flags: cell.flags & ATTRIBUTES,
            underline: cell.underline_color(),
            link: cell.hyperlink(),
        }
    }

    /// Makes the terminal write with the attributes of `cell`.
    pub(crate) fn take(&mut self, out: &mut Vec<u8>, cell: &Cell) {
        let new = Self::of(cell);
        if new == *self {
            return;
        }
        if new.link != self.link {
            out.extend_from_slice(b"\x1b]8;");
            if let Some(link) = &new.link {
                out.extend_from_slice(format!("id={};{}", link.id(), link.uri()).as_bytes());
            } else {
                out.push(b';');
            }
            out.extend_from_slice(b"\x1b\\");
        }
        out.extend_from_slice(b"\x1b[0");
        for (flag, parameter) in SGR {
            if new.flags.contains(flag) {
                out.extend_from_slice(parameter.as_bytes());
            }
        }
        put_colour(out, new.fg, 30);
        put_colour(out, new.bg, 40);
        match new.underline {
            Some(Color::Spec(rgb)) => {
                let text = format!(";58:2::{}:{}:{}", rgb.r, rgb.g, rgb.b);
                out.extend_from_slice(text.as_bytes());
            }
            Some(Color::Indexed(index)) => {
                out.extend_from_slice(format!(";58:5:{index}").as_bytes());
            }
            _ => {}
        }
        out.push(b'm');
        *self = new;
    }

    /// Writes the cells `range` of a row. The second half of a wide character is nothing: the
    /// first wrote it. Where one half has lost the other, it shows as a space.
    pub(crate) fn put_cells(&mut self, out: &mut Vec<u8>, row: &[Cell], range: Range<usize>) {
        let has = |index: usize, flag| row.get(index).is_some_and(|c| c.flags.contains(flag));
        for index in range {
            let Some(cell) = row.get(index) else { return };
            let whole = if cell.flags.contains(Flags::WIDE_CHAR) {
                has(index + 1, Flags::WIDE_CHAR_SPACER)
            } else if !cell.flags.contains(Flags::WIDE_CHAR_SPACER) {
                // The library notes a tab in the cell where it began; it looks like a space.
                !cell.c.is_control()
            } else if index > 0 && has(index - 1, Flags::WIDE_CHAR) {
                continue;
            } else {
                false
            };
            self.take(out, cell);
            if !whole {
                out.push(b' ');
                continue;
            }
            let mut utf8 = [0; 4];
            out.extend_from_slice(cell.c.encode_utf8(&mut utf8).as_bytes());
            for combining in cell.zerowidth().unwrap_or_default() {
                out.extend_from_slice(combining.encode_utf8(&mut utf8).as_bytes());
            }
        }
    }
}

/// Appends the SGR parameters of a colour; `base` is 30 for the foreground, 40 for the background.
fn put_colour(out: &mut Vec<u8>, colour: Color, base: u16) {
    let text = match colour {
        Color::Named(name) => {
            let index = name as u16;
            match index {
                0..8 => format!(";{}", base + index),
                8..16 => format!(";{}", base + 60 + index - 8),
                // The default colour, which the reset in front has set.
                _ => return,
            }
        }
        Color::Indexed(index) => format!(";{};5;{index}", base + 8),
        Color::Spec(rgb) => format!(";{};2;{};{};{}", base + 8, rgb.r, rgb.g, rgb.b),
    };
    out.extend_from_slice(text.as_bytes());
}
