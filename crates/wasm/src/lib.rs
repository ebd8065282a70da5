//! The model in a browser: `headrace_whatif` behind three exported functions.
//!
//! JavaScript writes the UTF-8 bytes of a question where `question_at` says, calls `answer`, and
//! copies the bytes of the answer from where `answer_at` says. Memory may grow in each call and
//! detach its views: a pointer is taken first, then `memory.buffer`.

#![allow(unsafe_code)] // Exported names alone: pointers are handed out and never followed here.

use headrace_whatif::WhatIf;
use std::cell::RefCell;

/// A question, its answer, and the results that are remembered for the next question.
#[derive(Default)]
struct Exchange {
    question: Vec<u8>,
    answer: Vec<u8>,
    model: WhatIf,
}

thread_local! {
    static EXCHANGE: RefCell<Exchange> = RefCell::new(Exchange::default());
}

/// Makes room for a question of `bytes` bytes and returns its address.
#[unsafe(no_mangle)]
pub extern "C" fn question_at(bytes: usize) -> *mut u8 {
    EXCHANGE.with_borrow_mut(|exchange| {
        exchange.question.clear();
        exchange.question.resize(bytes, b' ');
        exchange.question.as_mut_ptr()
    })
}

/// Answers the question and returns the length of the answer in bytes, a multiple of 8.
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> usize {
    EXCHANGE.with_borrow_mut(|exchange| {
        let question = String::from_utf8_lossy(&exchange.question);
        exchange.answer = exchange.model.answer(&question);
        exchange.answer.len()
    })
}

/// Returns the address of the answer.
#[unsafe(no_mangle)]
pub extern "C" fn answer_at() -> *const u8 {
    EXCHANGE.with_borrow(|exchange| exchange.answer.as_ptr())
}
