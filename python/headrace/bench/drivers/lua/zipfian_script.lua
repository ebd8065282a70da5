-- An OLTP script of sysbench with numbers after Zipf's law: HEADRACE_SCRIPT names it, HEADRACE_ZIPFIAN_EXP is the exponent.

require(os.getenv("HEADRACE_SCRIPT"))

local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
dofile(here .. "zipfian.lua")(tonumber(os.getenv("HEADRACE_ZIPFIAN_EXP")))
