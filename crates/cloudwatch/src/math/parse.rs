//! From text to a tree.
//!
//! ```text
//!  or      = and (("OR" | "||") and)*
//!  and     = compare (("AND" | "&&") compare)*
//!  compare = sum (("==" | "!=" | "<" | ">" | "<=" | ">=") sum)*
//!  sum     = product (("+" | "-") product)*
//!  product = sign (("*" | "/") sign)*
//!  sign    = "-" sign | power
//!  power   = atom ("^" sign)?
//!  atom    = number | "text" | name | NAME "(" or ("," or)* ")" | "[" or ("," or)* "]" | "(" or ")"
//! ```

use super::{MathError, MAX_EXPRESSION_CHARS};

/// Deepest nesting of brackets and calls: far deeper than expressions written by hand, and within
/// the stack of any thread.
const MAX_DEPTH: usize = 64;

/// Functions that CloudWatch has and the lab does not, each with the reason.
const REFUSED: [(&str, &str); 7] = [
    ("SEARCH", "the lab does not search for metrics; name them by MetricStat"),
    ("ANOMALY_DETECTION_BAND", "the lab trains no model of normal values; use a fixed threshold"),
    ("SELECT", "the lab has no Metrics Insights queries; use MetricStat and metric math"),
    ("INSIGHT_RULE_METRIC", "the lab has no Contributor Insights"),
    ("DB_PERF_INSIGHTS", "the lab has no Performance Insights"),
    ("LAMBDA", "the lab has no Lambda data sources"),
    ("SERVICE_QUOTA", "the lab publishes no usage metrics"),
];

/// An operator of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
    Equal,
    NotEqual,
    Less,
    Greater,
    LessOrEqual,
    GreaterOrEqual,
    And,
    Or,
}

impl Operator {
    /// Returns the text of the operator.
    pub fn as_str(self) -> &'static str {
        TOKENS.iter().find(|(_, operator)| *operator == self).map_or("", |(text, _)| text)
    }

    /// Computes the result for two numbers; comparisons give 1 or 0.
    pub fn apply(self, lhs: f64, rhs: f64) -> f64 {
        let truth = |holds: bool| f64::from(u8::from(holds));
        match self {
            Operator::Add => lhs + rhs,
            Operator::Subtract => lhs - rhs,
            Operator::Multiply => lhs * rhs,
            Operator::Divide => lhs / rhs,
            Operator::Power => lhs.powf(rhs),
            Operator::Equal => truth(lhs == rhs),
            Operator::NotEqual => truth(lhs != rhs),
            Operator::Less => truth(lhs < rhs),
            Operator::Greater => truth(lhs > rhs),
            Operator::LessOrEqual => truth(lhs <= rhs),
            Operator::GreaterOrEqual => truth(lhs >= rhs),
            Operator::And => truth(lhs != 0.0 && rhs != 0.0),
            Operator::Or => truth(lhs != 0.0 || rhs != 0.0),
        }
    }
}

/// Longer ones first, so that `<=` is not read as `<`.
const TOKENS: [(&str, Operator); 15] = [
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("&&", Operator::And),
    ("||", Operator::Or),
    ("AND", Operator::And),
    ("OR", Operator::Or),
    ("+", Operator::Add),
    ("-", Operator::Subtract),
    ("*", Operator::Multiply),
    ("/", Operator::Divide),
    ("^", Operator::Power),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

/// A tree and the position of its text.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Number of its first character, from 1; of an operation, of the operator.
    pub at: usize,
    /// Content of the node.
    pub tree: Tree,
}

/// Content of an expression's node.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    /// A number.
    Number(f64),
    /// Text in quotes.
    Text(String),
    /// The id of a metric or expression, or a word like REPEAT.
    Name(String),
    /// The negative of the expression.
    Negative(Box<Expr>),
    /// Two operands.
    Operation(Operator, Box<Expr>, Box<Expr>),
    /// A function and its arguments.
    Call(String, Vec<Expr>),
    /// An array.
    List(Vec<Expr>),
}

impl Expr {
    /// Calls `see` with every id of another query in it.
    pub fn names(&self, see: &mut impl FnMut(&str)) {
        match &self.tree {
            Tree::Number(_) | Tree::Text(_) => {}
            Tree::Name(name) => see(name),
            Tree::Negative(inner) => inner.names(see),
            Tree::Operation(_, lhs, rhs) => {
                lhs.names(see);
                rhs.names(see);
            }
            Tree::Call(_, parts) | Tree::List(parts) => parts.iter().for_each(|part| part.names(see)),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(f64),
    Text(String),
    Word(String),
    Operator(Operator),
    Sign(char),
    End,
}

impl Token {
    /// Returns the token as an error names it.
    fn quoted(&self) -> String {
        match self {
            Token::Number(number) => format!("'{number}'"),
            Token::Text(text) => format!("\"{text}\""),
            Token::Word(word) => format!("'{word}'"),
            Token::Operator(operator) => format!("'{}'", operator.as_str()),
            Token::Sign(sign) => format!("'{sign}'"),
            Token::End => "the end of the expression".to_string(),
        }
    }
}

/// Splits an expression into tokens, each with the number of its first character, from 1.
fn split_tokens(text: &str) -> Result<Vec<(usize, Token)>, MathError> {
    let chars: Vec<char> = text.chars().collect();
    if chars.len() > MAX_EXPRESSION_CHARS {
        return Err(MathError::new(MAX_EXPRESSION_CHARS, format!("an expression has at most {MAX_EXPRESSION_CHARS} characters, this one {}", chars.len())));
    }
    let mut tokens = Vec::new();
    let mut next = 0;
    while next < chars.len() {
        let (first, at) = (chars[next], next + 1);
        let run = |allowed: fn(char) -> bool| chars[next..].iter().take_while(|c| allowed(**c)).count();
        if first.is_whitespace() {
            next += 1;
        } else if first.is_ascii_digit() || first == '.' {
            let end = next + number_chars(&chars[next..]);
            let written: String = chars[next..end].iter().collect();
            let number = written.parse().ok().filter(|number: &f64| number.is_finite());
            tokens.push((at, Token::Number(number.ok_or_else(|| MathError::new(at, format!("'{written}' is not a number")))?)));
            next = end;
        } else if first.is_ascii_alphabetic() || first == '_' {
            let end = next + run(|c| c.is_ascii_alphanumeric() || c == '_');
            let word: String = chars[next..end].iter().collect();
            let operator = TOKENS.iter().find(|(text, _)| *text == word).map(|(_, operator)| Token::Operator(*operator));
            tokens.push((at, operator.unwrap_or(Token::Word(word))));
            next = end;
        } else if first == '"' || first == '\'' {
            let end = chars[next + 1..].iter().position(|c| *c == first);
            let end = next + 1 + end.ok_or_else(|| MathError::new(at, "the text that begins here has no closing quote"))?;
            tokens.push((at, Token::Text(chars[next + 1..end].iter().collect())));
            next = end + 1;
        } else if "()[],".contains(first) {
            tokens.push((at, Token::Sign(first)));
            next += 1;
        } else {
            let rest: String = chars[next..chars.len().min(next + 2)].iter().collect();
            let operator = TOKENS.iter().find(|(text, _)| rest.starts_with(text));
            let (text, operator) = operator.ok_or_else(|| MathError::new(at, format!("'{first}' has no meaning here")))?;
            tokens.push((at, Token::Operator(*operator)));
            next += text.len();
        }
    }
    tokens.push((chars.len() + 1, Token::End));
    Ok(tokens)
}

/// Returns the number of characters of a number: digits, a point, an exponent.
fn number_chars(chars: &[char]) -> usize {
    let digits = |from: usize| chars[from..].iter().take_while(|c| c.is_ascii_digit() || **c == '.').count();
    let mantissa = digits(0);
    let signed = usize::from(matches!(chars.get(mantissa + 1), Some('+' | '-')));
    let exponent = matches!(chars.get(mantissa), Some('e' | 'E')) && chars.get(mantissa + 1 + signed).is_some_and(char::is_ascii_digit);
    if exponent {
        return mantissa + 1 + signed + digits(mantissa + 1 + signed);
    }
    mantissa
}

/// Parses an expression into its tree.
///
/// # Errors
/// The first error, and the number of its character.
pub fn parse(text: &str) -> Result<Expr, MathError> {
    if text.trim_start().get(..7).is_some_and(|first| first.eq_ignore_ascii_case("select ")) {
        return Err(refuse_function("SELECT", 1).unwrap_or_else(|| MathError::new(1, "SELECT is not supported")));
    }
    let mut parser = Parser { tokens: split_tokens(text)?, next: 0, depth: 0 };
    let expr = parser.read_level(0)?;
    match parser.peek() {
        (_, Token::End) => Ok(expr),
        (at, token) => Err(MathError::new(at, format!("expected an operator or the end, found {}", token.quoted()))),
    }
}

fn refuse_function(function: &str, at: usize) -> Option<MathError> {
    let (_, reason) = REFUSED.iter().find(|(name, _)| *name == function)?;
    Some(MathError::new(at, format!("{function} is not supported: {reason}")))
}

/// Operators of two operands from the loosest to the tightest.
const LEVELS: [&[Operator]; 5] = [
    &[Operator::Or],
    &[Operator::And],
    &[Operator::Equal, Operator::NotEqual, Operator::Less, Operator::Greater, Operator::LessOrEqual, Operator::GreaterOrEqual],
    &[Operator::Add, Operator::Subtract],
    &[Operator::Multiply, Operator::Divide],
];

struct Parser {
    tokens: Vec<(usize, Token)>,
    next: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> (usize, Token) {
        self.tokens[self.next].clone()
    }

    fn take(&mut self) -> (usize, Token) {
        let token = self.peek();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    fn expect(&mut self, sign: char) -> Result<(), MathError> {
        match self.take() {
            (_, Token::Sign(actual)) if actual == sign => Ok(()),
            (at, token) => Err(MathError::new(at, format!("expected '{sign}', found {}", token.quoted()))),
        }
    }

    /// Reads operations of a row of [`LEVELS`] and tighter ones.
    fn read_level(&mut self, level: usize) -> Result<Expr, MathError> {
        let Some(operators) = LEVELS.get(level) else { return self.read_sign() };
        let mut lhs = self.read_level(level + 1)?;
        loop {
            match self.peek() {
                (at, Token::Operator(operator)) if operators.contains(&operator) => {
                    self.take();
                    let rhs = self.read_level(level + 1)?;
                    lhs = Expr { at, tree: Tree::Operation(operator, Box::new(lhs), Box::new(rhs)) };
                }
                _ => return Ok(lhs),
            }
        }
    }

    /// Reads a power, with any number of minus signs before it.
    fn read_sign(&mut self) -> Result<Expr, MathError> {
        self.enter_level()?;
        let expr = match self.peek() {
            (at, Token::Operator(Operator::Subtract)) => {
                self.take();
                Expr { at, tree: Tree::Negative(Box::new(self.read_sign()?)) }
            }
            _ => self.read_power()?,
        };
        self.depth -= 1;
        Ok(expr)
    }

    /// Reads an atom, and its exponent if it has one.
    fn read_power(&mut self) -> Result<Expr, MathError> {
        let base = self.read_atom()?;
        match self.peek() {
            (at, Token::Operator(Operator::Power)) => {
                self.take();
                let exponent = self.read_sign()?;
                Ok(Expr { at, tree: Tree::Operation(Operator::Power, Box::new(base), Box::new(exponent)) })
            }
            _ => Ok(base),
        }
    }

    fn enter_level(&mut self) -> Result<(), MathError> {
        self.depth += 1;
        match self.depth > MAX_DEPTH {
            true => Err(MathError::new(self.peek().0, format!("brackets and calls are nested at most {MAX_DEPTH} deep"))),
            false => Ok(()),
        }
    }

    /// Reads a number, a text, a name, a call, a list, or an expression in brackets.
    fn read_atom(&mut self) -> Result<Expr, MathError> {
        let (at, token) = self.take();
        let tree = match token {
            Token::Number(number) => Tree::Number(number),
            Token::Text(text) => Tree::Text(text),
            Token::Sign('(') => {
                let inner = self.read_level(0)?;
                self.expect(')')?;
                return Ok(inner);
            }
            Token::Sign('[') => Tree::List(self.read_parts(']')?),
            Token::Word(word) if self.peek().1 == Token::Sign('(') => {
                self.take();
                let name = word.to_ascii_uppercase();
                if let Some(error) = refuse_function(&name, at) {
                    return Err(error);
                }
                Tree::Call(name, self.read_parts(')')?)
            }
            Token::Word(word) => Tree::Name(word),
            other => return Err(MathError::new(at, format!("expected a number, a metric or a function, found {}", other.quoted()))),
        };
        Ok(Expr { at, tree })
    }

    /// Reads parts between commas, until the closing sign.
    fn read_parts(&mut self, close: char) -> Result<Vec<Expr>, MathError> {
        let mut parts = Vec::new();
        if self.peek().1 == Token::Sign(close) {
            self.take();
            return Ok(parts);
        }
        loop {
            parts.push(self.read_level(0)?);
            match self.take() {
                (_, Token::Sign(',')) => {}
                (_, Token::Sign(actual)) if actual == close => return Ok(parts),
                (at, token) => return Err(MathError::new(at, format!("expected ',' or '{close}', found {}", token.quoted()))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_is_named_with_its_position() {
        assert_eq!(wrong("m1 +* 3"), "at position 5: expected a number, a metric or a function, found '*'");
        assert_eq!(wrong("m1 +"), "at position 5: expected a number, a metric or a function, found the end of the expression");
        assert_eq!(wrong("(m1"), "at position 4: expected ')', found the end of the expression");
        assert_eq!(wrong("m1 m2"), "at position 4: expected an operator or the end, found 'm2'");
        assert_eq!(wrong("SUM([m1, m2)"), "at position 12: expected ',' or ']', found ')'");
        assert_eq!(wrong("m1 # 2"), "at position 4: '#' has no meaning here");
        assert_eq!(wrong("1.2.3"), "at position 1: '1.2.3' is not a number");
        assert_eq!(wrong("METRICS(\"a)"), "at position 9: the text that begins here has no closing quote");
        assert!(wrong("1 + SEARCH('{AWS/EBS}', 'Sum', 60)").starts_with("at position 5: SEARCH is not supported"));
        assert!(wrong("select AVG(x) from y").starts_with("at position 1: SELECT is not supported"));
        assert!(wrong("ANOMALY_DETECTION_BAND(m1, 2)").contains("ANOMALY_DETECTION_BAND is not supported"));
    }

    #[test]
    fn nesting_has_an_end() {
        let deep = |many: usize| format!("{}1{}", "(".repeat(many), ")".repeat(many));
        assert!(parse(&deep(MAX_DEPTH - 1)).is_ok());
        assert!(wrong(&deep(MAX_DEPTH)).contains("nested at most"));
        assert!(wrong(&"-".repeat(2_000)).contains("nested at most"));
        assert!(wrong(&"1+".repeat(2_000)).contains("at most 2048 characters"));
    }

    #[test]
    fn any_text_is_an_error_or_a_tree() {
        // A small generator over the characters that mean something.
        let signs: Vec<char> = "m1e2 .,()[]+-*/^<>=!&|\"'ANDORSUM".chars().collect();
        let mut seed = 7u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..12 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push(signs[(seed >> 33) as usize % signs.len()]);
            }
            if let Err(error) = parse(&text) {
                assert!((1..=text.chars().count() + 1).contains(&error.at), "{text}: {error}");
            }
        }
    }
}
