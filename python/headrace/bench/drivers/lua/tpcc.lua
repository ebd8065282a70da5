-- TPC-C as a script for sysbench 1.0, written from the standard (TPC Benchmark C, revision 5.11; clauses in comments).
--
-- The five transactions in the mix 45 : 43 : 4 : 4 : 4, the nine tables, the non-uniform numbers and names. As usual for a load generator and
-- unlike an audited run: no terminals, keying and think times (a client begins its next transaction at once), any client works on any
-- warehouse, no foreign keys. Commands: create, load (parallel, by warehouse), index, run, cleanup.

local ffi = require("ffi")
ffi.cdef [[
typedef struct { long tv_sec; long tv_nsec; } headrace_timespec;
int clock_gettime(int clock, headrace_timespec *at);
]]

sysbench.cmdline.options = {
   warehouses = {"Warehouses, the scale of TPC-C (clause 4.2)", 1},
   items = {"Items; the standard has 100000", 100000},
   customers = {"Customers of a district; the standard has 3000", 3000},
   mysql_storage_engine = {"Storage engine", "innodb"},
   warmup = {"Seconds at the beginning whose latencies are not counted by kind of transaction", 0},
}

local DISTRICTS = 10
local SYLLABLES = {"BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"} -- 4.3.2.3
-- Clause 2.1.6.1: the constant of C_LAST at run time differs from the one at load time by 65 to 119, but not by 96 or 112.
local C_LAST_LOAD, C_LAST_RUN, C_ID, C_ITEM = 157, 223, 259, 7911
local BATCH = 1000 -- rows of a statement when loading
local uniform = sysbench.rand.uniform

-- --- numbers and names ------------------------------------------------------------------------------------------------

local function nurand(a, c, x, y) -- 2.1.6
   return (bit.bor(uniform(0, a), uniform(x, y)) + c) % (y - x + 1) + x
end

local function a_of(n) -- 2.1.6: 255 for 1,000 names, 1023 for 3,000 customers, 8191 for 100,000 items; smaller for smaller sets
   local a = 1
   while (a + 1) * 3 < n do a = a * 2 + 1 end
   return a
end

local function customer_id() return nurand(math.min(1023, a_of(sysbench.opt.customers)), C_ID, 1, sysbench.opt.customers) end
local function item_id() return nurand(math.min(8191, a_of(sysbench.opt.items)), C_ITEM, 1, sysbench.opt.items) end
local function names() return math.min(1000, sysbench.opt.customers) end

local function last_name(number)
   return SYLLABLES[math.floor(number / 100) % 10 + 1] .. SYLLABLES[math.floor(number / 10) % 10 + 1] .. SYLLABLES[number % 10 + 1]
end

local LETTERS = string.rep("@", 512)
local DIGITS = string.rep("#", 32)
local function letters(low, high) return sysbench.rand.string(LETTERS:sub(1, uniform(low, high))) end
local function digits(n) return sysbench.rand.string(DIGITS:sub(1, n)) end
local function zip() return digits(4) .. "11111" end -- 4.3.2.7

local function original_data(low, high) -- 4.3.3.1: a tenth holds ORIGINAL somewhere
   local text = letters(low, high)
   if uniform(1, 10) > 1 then return text end
   local at = uniform(1, #text - 8)
   return text:sub(1, at) .. "ORIGINAL" .. text:sub(at + 9)
end

-- --- tables (1.3) -----------------------------------------------------------------------------------------------------

local TABLES = {
   {"warehouse", [[w_id INT NOT NULL, w_name VARCHAR(10), w_street_1 VARCHAR(20), w_street_2 VARCHAR(20), w_city VARCHAR(20), w_state CHAR(2),
      w_zip CHAR(9), w_tax DECIMAL(4,4), w_ytd DECIMAL(12,2), PRIMARY KEY (w_id)]]},
   {"district", [[d_id TINYINT NOT NULL, d_w_id INT NOT NULL, d_name VARCHAR(10), d_street_1 VARCHAR(20), d_street_2 VARCHAR(20),
      d_city VARCHAR(20), d_state CHAR(2), d_zip CHAR(9), d_tax DECIMAL(4,4), d_ytd DECIMAL(12,2), d_next_o_id INT, PRIMARY KEY (d_w_id, d_id)]]},
   {"customer", [[c_id INT NOT NULL, c_d_id TINYINT NOT NULL, c_w_id INT NOT NULL, c_first VARCHAR(16), c_middle CHAR(2), c_last VARCHAR(16),
      c_street_1 VARCHAR(20), c_street_2 VARCHAR(20), c_city VARCHAR(20), c_state CHAR(2), c_zip CHAR(9), c_phone CHAR(16), c_since DATETIME,
      c_credit CHAR(2), c_credit_lim DECIMAL(12,2), c_discount DECIMAL(4,4), c_balance DECIMAL(12,2), c_ytd_payment DECIMAL(12,2),
      c_payment_cnt SMALLINT, c_delivery_cnt SMALLINT, c_data VARCHAR(500), PRIMARY KEY (c_w_id, c_d_id, c_id)]],
      "KEY tpcc_customer_name (c_w_id, c_d_id, c_last, c_first)"},
   {"history", [[h_id BIGINT NOT NULL AUTO_INCREMENT, h_c_id INT, h_c_d_id TINYINT, h_c_w_id INT, h_d_id TINYINT, h_w_id INT, h_date DATETIME,
      h_amount DECIMAL(6,2), h_data VARCHAR(24), PRIMARY KEY (h_id)]]},
   {"new_orders", "no_o_id INT NOT NULL, no_d_id TINYINT NOT NULL, no_w_id INT NOT NULL, PRIMARY KEY (no_w_id, no_d_id, no_o_id)"},
   {"orders", [[o_id INT NOT NULL, o_d_id TINYINT NOT NULL, o_w_id INT NOT NULL, o_c_id INT, o_entry_d DATETIME, o_carrier_id TINYINT,
      o_ol_cnt TINYINT, o_all_local TINYINT, PRIMARY KEY (o_w_id, o_d_id, o_id)]],
      "KEY tpcc_orders_customer (o_w_id, o_d_id, o_c_id, o_id)"},
   {"order_line", [[ol_o_id INT NOT NULL, ol_d_id TINYINT NOT NULL, ol_w_id INT NOT NULL, ol_number TINYINT NOT NULL, ol_i_id INT,
      ol_supply_w_id INT, ol_delivery_d DATETIME, ol_quantity TINYINT, ol_amount DECIMAL(6,2), ol_dist_info CHAR(24),
      PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)]]},
   {"item", "i_id INT NOT NULL, i_im_id INT, i_name VARCHAR(24), i_price DECIMAL(5,2), i_data VARCHAR(50), PRIMARY KEY (i_id)"},
   {"stock", [[s_i_id INT NOT NULL, s_w_id INT NOT NULL, s_quantity SMALLINT, s_dist_01 CHAR(24), s_dist_02 CHAR(24), s_dist_03 CHAR(24),
      s_dist_04 CHAR(24), s_dist_05 CHAR(24), s_dist_06 CHAR(24), s_dist_07 CHAR(24), s_dist_08 CHAR(24), s_dist_09 CHAR(24), s_dist_10 CHAR(24),
      s_ytd DECIMAL(8,0), s_order_cnt SMALLINT, s_remote_cnt SMALLINT, s_data VARCHAR(50), PRIMARY KEY (s_w_id, s_i_id)]]},
}

local function connect()
   local con = sysbench.sql.driver():connect()
   if sysbench.opt.mysql_storage_engine == "rocksdb" then
      -- MyRocks has no gap locks: under REPEATABLE READ locking reads end as conflicts.
      con:query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
   end
   return con
end

local function create()
   local con = connect()
   for _, made in ipairs(TABLES) do
      con:query(string.format("CREATE TABLE tpcc_%s (%s) ENGINE=%s CHARACTER SET latin1 COLLATE latin1_bin", made[1], made[2], sysbench.opt.mysql_storage_engine))
   end
end

local function index()
   local con = connect()
   for _, made in ipairs(TABLES) do
      if made[3] then con:query(string.format("ALTER TABLE tpcc_%s ADD %s", made[1], made[3])) end
   end
end

local function cleanup()
   local con = connect()
   for _, made in ipairs(TABLES) do con:query("DROP TABLE IF EXISTS tpcc_" .. made[1]) end
end

-- --- loading (4.3.3) --------------------------------------------------------------------------------------------------

local function inserter(con, name, columns)
   local rows, head = {}, "INSERT INTO tpcc_" .. name .. " (" .. columns .. ") VALUES "
   local function flush()
      if #rows > 0 then
         con:query(head .. table.concat(rows, ","))
         rows = {}
      end
   end
   return function(...)
      rows[#rows + 1] = string.format(...)
      if #rows >= BATCH then flush() end
   end, flush
end

local function load_items(con)
   local add, flush = inserter(con, "item", "i_id, i_im_id, i_name, i_price, i_data")
   for i = 1, sysbench.opt.items do
      add("(%d,%d,'%s',%.2f,'%s')", i, uniform(1, 10000), letters(14, 24), uniform(100, 10000) / 100, original_data(26, 50))
   end
   flush()
end

local function load_stock(con, w)
   local add, flush = inserter(con, "stock", "s_i_id, s_w_id, s_quantity, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, " ..
      "s_dist_08, s_dist_09, s_dist_10, s_ytd, s_order_cnt, s_remote_cnt, s_data")
   for i = 1, sysbench.opt.items do
      local d = {}
      for k = 1, DISTRICTS do d[k] = letters(24, 24) end
      add("(%d,%d,%d,'%s',0,0,0,'%s')", i, w, uniform(10, 100), table.concat(d, "','"), original_data(26, 50))
   end
   flush()
end

local function load_customers(con, w, d)
   local add, flush = inserter(con, "customer", "c_id, c_d_id, c_w_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, " ..
      "c_since, c_credit, c_credit_lim, c_discount, c_balance, c_ytd_payment, c_payment_cnt, c_delivery_cnt, c_data")
   local paid, done = inserter(con, "history", "h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data")
   local names_a = math.min(255, a_of(names()))
   for c = 1, sysbench.opt.customers do
      local number = c <= 1000 and c - 1 or nurand(names_a, C_LAST_LOAD, 0, names() - 1)
      add("(%d,%d,%d,'%s','OE','%s','%s','%s','%s','%s','%s','%s',NOW(),'%s',50000,%.4f,-10,10,1,0,'%s')", c, d, w, letters(8, 16), last_name(number),
         letters(10, 20), letters(10, 20), letters(10, 20), letters(2, 2), zip(), digits(16), uniform(1, 10) == 1 and "BC" or "GC", uniform(0, 5000) / 10000,
         letters(300, 500))
      paid("(%d,%d,%d,%d,%d,NOW(),10,'%s')", c, d, w, d, w, letters(12, 24))
   end
   flush()
   done()
end

local function load_orders(con, w, d)
   local order, end_orders = inserter(con, "orders", "o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local")
   local line, end_lines = inserter(con, "order_line", "ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info")
   local new, end_new = inserter(con, "new_orders", "no_o_id, no_d_id, no_w_id")
   local count = sysbench.opt.customers
   local who = {}
   for c = 1, count do who[c] = c end
   for c = count, 2, -1 do -- a permutation of the customers
      local other = uniform(1, c)
      who[c], who[other] = who[other], who[c]
   end
   -- The last 900 of 3,000 are not delivered yet.
   local delivered = count - math.floor(0.3 * count)
   for o = 1, count do
      local lines, old = uniform(5, 15), o <= delivered
      order("(%d,%d,%d,%d,NOW(),%s,%d,1)", o, d, w, who[o], old and tostring(uniform(1, 10)) or "NULL", lines)
      for n = 1, lines do
         line("(%d,%d,%d,%d,%d,%d,%s,5,%.2f,'%s')", o, d, w, n, uniform(1, sysbench.opt.items), w, old and "NOW()" or "NULL", old and 0 or uniform(1, 999999) / 100,
            letters(24, 24))
      end
      if not old then new("(%d,%d,%d)", o, d, w) end
   end
   end_orders()
   end_lines()
   end_new()
end

local function load()
   local con = connect()
   if sysbench.tid % sysbench.opt.threads == 0 then load_items(con) end
   for w = 1 + sysbench.tid % sysbench.opt.threads, sysbench.opt.warehouses, sysbench.opt.threads do
      con:query("BEGIN")
      -- W_YTD is the sum of its districts' (3.3.2.1) and of the payments in its history (3.3.2.8): 10 for each customer.
      local ytd = 10 * sysbench.opt.customers
      con:query(string.format("INSERT INTO tpcc_warehouse VALUES (%d,'%s','%s','%s','%s','%s','%s',%.4f,%d)", w, letters(6, 10), letters(10, 20), letters(10, 20),
         letters(10, 20), letters(2, 2), zip(), uniform(0, 2000) / 10000, DISTRICTS * ytd))
      for d = 1, DISTRICTS do
         con:query(string.format("INSERT INTO tpcc_district VALUES (%d,%d,'%s','%s','%s','%s','%s','%s',%.4f,%d,%d)", d, w, letters(6, 10), letters(10, 20),
            letters(10, 20), letters(10, 20), letters(2, 2), zip(), uniform(0, 2000) / 10000, ytd, sysbench.opt.customers + 1))
      end
      con:query("COMMIT")
      load_stock(con, w)
      for d = 1, DISTRICTS do
         load_customers(con, w, d)
         load_orders(con, w, d)
      end
   end
end

sysbench.cmdline.commands = {
   create = {create},
   load = {load, sysbench.cmdline.PARALLEL_COMMAND},
   index = {index},
   cleanup = {cleanup},
}

-- --- transactions (2.4 to 2.8) ----------------------------------------------------------------------------------------

local con

local function query(...) return con:query(string.format(...)) end
local function row(...) return con:query_row(string.format(...)) end
local function warehouse() return uniform(1, sysbench.opt.warehouses) end
local function district() return uniform(1, DISTRICTS) end

local function other_warehouse(w)
   local count = sysbench.opt.warehouses
   return count == 1 and w or (w - 1 + uniform(1, count - 1)) % count + 1
end

local function new_order() -- 2.4
   local w, d, c, lines = warehouse(), district(), customer_id(), uniform(5, 15)
   local fails = uniform(1, 100) == 1 -- 2.4.1.4: one in a hundred names an item that does not exist and is rolled back
   local ordered, all_local = {}, 1
   for n = 1, lines do
      local supply = w
      if uniform(1, 100) == 1 then supply = other_warehouse(w) end
      if supply ~= w then all_local = 0 end
      ordered[n] = {item = item_id(), supply = supply, quantity = uniform(1, 10)}
   end
   -- In one order everywhere, so that clients wait for each other's stock but do not deadlock.
   table.sort(ordered, function(a, b) return a.supply < b.supply or (a.supply == b.supply and a.item < b.item) end)
   con:query("BEGIN")
   row("SELECT c_discount, c_last, c_credit, w_tax FROM tpcc_customer, tpcc_warehouse WHERE w_id = %d AND c_w_id = w_id AND c_d_id = %d AND c_id = %d", w, d, c)
   local o = tonumber((row("SELECT d_next_o_id, d_tax FROM tpcc_district WHERE d_w_id = %d AND d_id = %d FOR UPDATE", w, d)))
   query("UPDATE tpcc_district SET d_next_o_id = %d WHERE d_w_id = %d AND d_id = %d", o + 1, w, d)
   query("INSERT INTO tpcc_orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) VALUES (%d,%d,%d,%d,NOW(),%d,%d)", o, d, w, c, lines, all_local)
   query("INSERT INTO tpcc_new_orders (no_o_id, no_d_id, no_w_id) VALUES (%d,%d,%d)", o, d, w)
   for n, line in ipairs(ordered) do
      local wanted = (fails and n == lines) and sysbench.opt.items + 1 or line.item
      local price = row("SELECT i_price, i_name, i_data FROM tpcc_item WHERE i_id = %d", wanted)
      if price == nil then
         con:query("ROLLBACK")
         return
      end
      local stock, dist = row("SELECT s_quantity, s_dist_%02d, s_data FROM tpcc_stock WHERE s_i_id = %d AND s_w_id = %d FOR UPDATE", d, line.item, line.supply)
      local left = tonumber(stock) - line.quantity
      if left < 10 then left = left + 91 end
      query("UPDATE tpcc_stock SET s_quantity = %d, s_ytd = s_ytd + %d, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + %d WHERE s_i_id = %d AND s_w_id = %d",
         left, line.quantity, line.supply ~= w and 1 or 0, line.item, line.supply)
      query("INSERT INTO tpcc_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info) " ..
         "VALUES (%d,%d,%d,%d,%d,%d,%d,%.2f,'%s')", o, d, w, n, line.item, line.supply, line.quantity, line.quantity * tonumber(price), dist)
   end
   con:query("COMMIT")
end

local function customer_by_name(w, d) -- 2.5.2.2: of those with the name in order of first names, the one in the middle
   local name = last_name(nurand(math.min(255, a_of(names())), C_LAST_RUN, 0, names() - 1))
   local rs = query("SELECT c_id FROM tpcc_customer WHERE c_w_id = %d AND c_d_id = %d AND c_last = '%s' ORDER BY c_first", w, d, name)
   local ids = {}
   for i = 1, tonumber(rs.nrows) do ids[i] = tonumber(rs:fetch_row()[1]) end
   rs:free()
   return ids[math.ceil(#ids / 2)]
end

local function payment() -- 2.5
   local w, d, amount = warehouse(), district(), uniform(100, 500000) / 100
   local cw, cd = w, d
   if uniform(1, 100) > 85 then cw, cd = other_warehouse(w), district() end
   con:query("BEGIN")
   query("UPDATE tpcc_warehouse SET w_ytd = w_ytd + %.2f WHERE w_id = %d", amount, w)
   local w_name = row("SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM tpcc_warehouse WHERE w_id = %d", w)
   query("UPDATE tpcc_district SET d_ytd = d_ytd + %.2f WHERE d_w_id = %d AND d_id = %d", amount, w, d)
   local d_name = row("SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM tpcc_district WHERE d_w_id = %d AND d_id = %d", w, d)
   local c = uniform(1, 100) <= 60 and customer_by_name(cw, cd) or customer_id()
   local credit = row("SELECT c_credit, c_first, c_middle, c_last, c_credit_lim, c_discount, c_balance, c_since FROM tpcc_customer " ..
      "WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d FOR UPDATE", cw, cd, c)
   local data = ""
   if credit == "BC" then -- 2.5.2.2: bad credit notes the payment in front of c_data
      data = string.format(", c_data = LEFT(CONCAT('%d %d %d %d %d %.2f | ', c_data), 500)", c, cd, cw, d, w, amount)
   end
   query("UPDATE tpcc_customer SET c_balance = c_balance - %.2f, c_ytd_payment = c_ytd_payment + %.2f, c_payment_cnt = c_payment_cnt + 1%s " ..
      "WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", amount, amount, data:gsub("%%", "%%%%"), cw, cd, c)
   query("INSERT INTO tpcc_history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data) VALUES (%d,%d,%d,%d,%d,NOW(),%.2f,'%s    %s')", cd, cw, c, d, w,
      amount, w_name, d_name)
   con:query("COMMIT")
end

local function order_status() -- 2.6
   local w, d = warehouse(), district()
   con:query("BEGIN")
   local c = uniform(1, 100) <= 60 and customer_by_name(w, d) or customer_id()
   row("SELECT c_balance, c_first, c_middle, c_last FROM tpcc_customer WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", w, d, c)
   local o = row("SELECT o_id, o_carrier_id, o_entry_d FROM tpcc_orders WHERE o_w_id = %d AND o_d_id = %d AND o_c_id = %d ORDER BY o_id DESC LIMIT 1", w, d, c)
   if o ~= nil then
      query("SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM tpcc_order_line WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id = %d", w, d, tonumber(o)):free()
   end
   con:query("COMMIT")
end

local function delivery() -- 2.7: the oldest new order of every district
   local w, carrier = warehouse(), uniform(1, 10)
   con:query("BEGIN")
   for d = 1, DISTRICTS do
      local o = row("SELECT no_o_id FROM tpcc_new_orders WHERE no_w_id = %d AND no_d_id = %d ORDER BY no_o_id LIMIT 1 FOR UPDATE", w, d)
      if o ~= nil then
         o = tonumber(o)
         query("DELETE FROM tpcc_new_orders WHERE no_w_id = %d AND no_d_id = %d AND no_o_id = %d", w, d, o)
         local c = tonumber((row("SELECT o_c_id FROM tpcc_orders WHERE o_w_id = %d AND o_d_id = %d AND o_id = %d", w, d, o)))
         query("UPDATE tpcc_orders SET o_carrier_id = %d WHERE o_w_id = %d AND o_d_id = %d AND o_id = %d", carrier, w, d, o)
         query("UPDATE tpcc_order_line SET ol_delivery_d = NOW() WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id = %d", w, d, o)
         local sum = tonumber((row("SELECT SUM(ol_amount) FROM tpcc_order_line WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id = %d", w, d, o)))
         query("UPDATE tpcc_customer SET c_balance = c_balance + %.2f, c_delivery_cnt = c_delivery_cnt + 1 WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", sum, w, d, c)
      end
   end
   con:query("COMMIT")
end

local function stock_level() -- 2.8
   local w, d, low = warehouse(), district(), uniform(10, 20)
   con:query("BEGIN")
   local o = tonumber((row("SELECT d_next_o_id FROM tpcc_district WHERE d_w_id = %d AND d_id = %d", w, d)))
   row("SELECT COUNT(DISTINCT s_i_id) FROM tpcc_order_line, tpcc_stock WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id < %d AND ol_o_id >= %d " ..
      "AND s_w_id = %d AND s_i_id = ol_i_id AND s_quantity < %d", w, d, o, o - 20, w, low)
   con:query("COMMIT")
end

-- --- the run ----------------------------------------------------------------------------------------------------------

-- A deck of 100 cards, dealt in a new order each time (5.2.4.2): the mix is exact over every 100 transactions of a client.
local KINDS = {{"new_order", new_order, 45}, {"payment", payment, 43}, {"order_status", order_status, 4}, {"delivery", delivery, 4}, {"stock_level", stock_level, 4}}
local deck, place, counted, began = {}, 0, {}, 0
local at = ffi.new("headrace_timespec")

local function now()
   ffi.C.clock_gettime(1, at) -- CLOCK_MONOTONIC
   return tonumber(at.tv_sec) + tonumber(at.tv_nsec) * 1e-9
end

local function shuffle()
   for i = #deck, 2, -1 do
      local j = uniform(1, i)
      deck[i], deck[j] = deck[j], deck[i]
   end
   place = 0
end

function thread_init()
   con = connect()
   for _, kind in ipairs(KINDS) do
      counted[kind[1]] = {}
      for _ = 1, kind[3] do deck[#deck + 1] = kind end
   end
   shuffle()
   began = now()
end

function event()
   if place == #deck then shuffle() end
   place = place + 1
   local kind = deck[place]
   local start = now()
   kind[2]()
   local finish = now()
   if start - began >= sysbench.opt.warmup then
      -- Buckets 1.8 % apart as sysbench's own: ln(1e8) / 1023 = 0.018 of the logarithm.
      local bucket = math.floor(math.log(math.max(1e-3, (finish - start) * 1e3)) / 0.018 + 0.5)
      counted[kind[1]][bucket] = (counted[kind[1]][bucket] or 0) + 1
   end
end

function sysbench.hooks.before_restart_event()
   -- A lock wait that timed out has undone its statement only.
   con:query("ROLLBACK")
end

function thread_done()
   for name, buckets in pairs(counted) do
      local parts = {}
      for bucket, count in pairs(buckets) do parts[#parts + 1] = bucket .. ":" .. count end
      -- One write a line: threads end together, and print() writes the line end by itself.
      io.write("headrace-tpcc " .. name .. " " .. table.concat(parts, ",") .. "\n")
   end
   con:disconnect()
end
