-- Zipf's law for the OLTP scripts of sysbench 1.0, which has uniform, gaussian, special and pareto only.
--
--   P(k) ~ 1 / k^exponent, k = 1 .. n
--
-- Rejection-inversion (W. Hoermann, G. Derflinger: Rejection-inversion to generate variates from monotone discrete
-- distributions, ACM TOMACS 6(3), 1996): exact, about 1.1 tries a number, no table. sysbench 1.1 has the same method
-- as --rand-type=zipfian with --rand-zipfian-exp.
--
-- Loaded in front of a script:  sysbench SCRIPT.lua, which sets `exponent` and calls this file.

local log, exp, floor = math.log, math.exp, math.floor

-- functions that stay exact near zero: ln(1+x)/x and (exp(x)-1)/x
local function log1p_over(x)
   if math.abs(x) > 1e-8 then return log(1 + x) / x end
   return 1 - x * (1 / 2 - x * (1 / 3 - x / 4))
end

local function expm1_over(x)
   if math.abs(x) > 1e-8 then return (exp(x) - 1) / x end
   return 1 + x / 2 * (1 + x / 3 * (1 + x / 4))
end

local function sampler(n, s)
   local function integral(x)
      local l = log(x)
      return expm1_over((1 - s) * l) * l
   end
   local function density(x) return exp(-s * log(x)) end
   local function inverse(x)
      local t = x * (1 - s)
      if t < -1 then t = -1 end
      return exp(log1p_over(t) * x)
   end
   local lowest = integral(1.5) - 1
   local highest = integral(n + 0.5)
   local squeeze = 2 - inverse(integral(2.5) - density(2))
   return function(uniform)
      while true do
         local u = highest + uniform() * (lowest - highest)
         local x = inverse(u)
         local k = floor(x + 0.5)
         if k < 1 then k = 1 elseif k > n then k = n end
         if k - x <= squeeze or u >= integral(k + 0.5) - density(k) then return k end
      end
   end
end

return function(exponent)
   local made = {}
   sysbench.rand.default = function(a, b)
      local n = b - a + 1
      local draw = made[n]
      if draw == nil then
         draw = sampler(n, exponent)
         made[n] = draw
      end
      return a + draw(sysbench.rand.uniform_double) - 1
   end
end
