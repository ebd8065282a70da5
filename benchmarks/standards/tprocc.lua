-- Calls of tprocc.sql in the shares of HammerDB's TPROC-C: of 23 calls 10 new orders, 10 payments, and one each of the others. Items are
-- drawn evenly, customers by NURand where they are named by number (60 % of payments and order states name them by their last name).
sysbench.cmdline.options = {warehouses = {"Warehouses", 1}, customers = {"Customers of a district", 3000}}

local uniform = sysbench.rand.uniform
local SYLLABLES = {"BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"} -- 4.3.2.3
local con

local function nurand(a, c, x, y) return (bit.bor(uniform(0, a), uniform(x, y)) + c) % (y - x + 1) + x end -- 2.1.6

local function name()
   if uniform(1, 100) > 60 then return "" end
   local number = nurand(255, 223, 0, 999)
   return SYLLABLES[math.floor(number / 100) + 1] .. SYLLABLES[math.floor(number / 10) % 10 + 1] .. SYLLABLES[number % 10 + 1]
end

function thread_init() con = sysbench.sql.driver():connect() end

function event()
   local kind, w, d, c = uniform(1, 23), uniform(1, sysbench.opt.warehouses), uniform(1, 10), nurand(1023, 259, 1, sysbench.opt.customers)
   if kind <= 10 then
      con:query(string.format("CALL new_order(%d,%d,%d,%d,%d)", w, d, c, uniform(5, 15), uniform(1, 100) == 1 and 1 or 0))
   elseif kind <= 20 then
      con:query(string.format("CALL payment(%d,%d,%d,'%s',%.2f)", w, d, c, name(), uniform(100, 500000) / 100))
   elseif kind == 21 then
      con:query(string.format("CALL order_status(%d,%d,%d,'%s')", w, d, c, name()))
   elseif kind == 22 then
      con:query(string.format("CALL delivery(%d,%d)", w, uniform(1, 10)))
   else
      con:query(string.format("CALL stock_level(%d,%d,%d)", w, d, uniform(10, 20)))
   end
end

function sysbench.hooks.before_restart_event() con:query("ROLLBACK") end
function thread_done() con:disconnect() end
