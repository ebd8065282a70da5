-- The consistency conditions of TPC-C, clause 3.3.2: each counts the rows that break it, of
-- warehouses up to %s. Condition 11 (orders less new orders are 2,100 a district) holds before a run
-- only. A line with a number begins a condition.

-- 1
SELECT COUNT(*) FROM (SELECT w_id FROM tpcc_warehouse JOIN tpcc_district ON d_w_id = w_id WHERE w_id <= %s
  GROUP BY w_id, w_ytd HAVING w_ytd <> SUM(d_ytd)) broken

-- 2
SELECT COUNT(*) FROM tpcc_district WHERE d_w_id <= %s AND (
  d_next_o_id - 1 <> (SELECT MAX(o_id) FROM tpcc_orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
  OR d_next_o_id - 1 <> COALESCE((SELECT MAX(no_o_id) FROM tpcc_new_orders WHERE no_w_id = d_w_id AND no_d_id = d_id), d_next_o_id - 1))

-- 3
SELECT COUNT(*) FROM (SELECT no_w_id FROM tpcc_new_orders WHERE no_w_id <= %s
  GROUP BY no_w_id, no_d_id HAVING MAX(no_o_id) - MIN(no_o_id) + 1 <> COUNT(*)) broken

-- 4
SELECT COUNT(*) FROM (SELECT o_w_id w, o_d_id d, SUM(o_ol_cnt) told FROM tpcc_orders WHERE o_w_id <= %s GROUP BY o_w_id, o_d_id) o
  LEFT JOIN (SELECT ol_w_id w, ol_d_id d, COUNT(*) found FROM tpcc_order_line WHERE ol_w_id <= %s GROUP BY ol_w_id, ol_d_id) l
  ON o.w = l.w AND o.d = l.d WHERE told <> COALESCE(found, 0)

-- 5
SELECT COUNT(*) FROM tpcc_orders LEFT JOIN tpcc_new_orders ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
  WHERE o_w_id <= %s AND (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)

-- 6
SELECT COUNT(*) FROM tpcc_orders WHERE o_w_id <= %s
  AND o_ol_cnt <> (SELECT COUNT(*) FROM tpcc_order_line WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id)

-- 7
SELECT COUNT(*) FROM tpcc_order_line JOIN tpcc_orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
  WHERE ol_w_id <= %s AND (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)

-- 8
SELECT COUNT(*) FROM tpcc_warehouse WHERE w_id <= %s AND w_ytd <> (SELECT SUM(h_amount) FROM tpcc_history WHERE h_w_id = w_id)

-- 9
SELECT COUNT(*) FROM tpcc_district LEFT JOIN (SELECT h_w_id w, h_d_id d, SUM(h_amount) paid FROM tpcc_history GROUP BY h_w_id, h_d_id) h
  ON w = d_w_id AND d = d_id WHERE d_w_id <= %s AND d_ytd <> paid

-- 10
SELECT COUNT(*) FROM tpcc_customer
  LEFT JOIN (SELECT o_w_id w, o_d_id d, o_c_id c, SUM(ol_amount) delivered FROM tpcc_orders
             JOIN tpcc_order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
             WHERE o_w_id <= %s AND ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) o ON o.w = c_w_id AND o.d = c_d_id AND o.c = c_id
  LEFT JOIN (SELECT h_c_w_id w, h_c_d_id d, h_c_id c, SUM(h_amount) paid FROM tpcc_history WHERE h_c_w_id <= %s
             GROUP BY h_c_w_id, h_c_d_id, h_c_id) h ON h.w = c_w_id AND h.d = c_d_id AND h.c = c_id
  WHERE c_w_id <= %s AND c_balance <> COALESCE(delivered, 0) - COALESCE(paid, 0)

-- 12
SELECT COUNT(*) FROM tpcc_customer
  LEFT JOIN (SELECT o_w_id w, o_d_id d, o_c_id c, SUM(ol_amount) delivered FROM tpcc_orders
             JOIN tpcc_order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
             WHERE o_w_id <= %s AND ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) o ON o.w = c_w_id AND o.d = c_d_id AND o.c = c_id
  WHERE c_w_id <= %s AND c_balance + c_ytd_payment <> COALESCE(delivered, 0)
