-- The five transactions of TPC-C (2.4 to 2.8) as stored procedures, so that a client makes one round trip a call as HammerDB's TPROC-C
-- does. Tables: those of python/headrace/bench/drivers/lua/tpcc.lua. Statements are separated by a line of two slashes.
CREATE PROCEDURE new_order(w INT, d INT, c INT, line_count INT, fails INT)
BEGIN
  DECLARE o, n, item, quantity, supply, amount_in_stock INT DEFAULT 1;
  DECLARE price, tax, discount DECIMAL(12,4);
  DECLARE place CHAR(24);
  DECLARE last_name VARCHAR(16);
  DECLARE missing INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET missing = 1;
  START TRANSACTION;
  SELECT c_discount, c_last, w_tax INTO discount, last_name, tax FROM tpcc_customer, tpcc_warehouse
    WHERE w_id = w AND c_w_id = w AND c_d_id = d AND c_id = c;
  SELECT d_next_o_id, d_tax INTO o, tax FROM tpcc_district WHERE d_id = d AND d_w_id = w FOR UPDATE;
  UPDATE tpcc_district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = d AND d_w_id = w;
  INSERT INTO tpcc_orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) VALUES (o, d, w, c, NOW(), line_count, 1);
  INSERT INTO tpcc_new_orders (no_o_id, no_d_id, no_w_id) VALUES (o, d, w);
  SET n = 1;
  order_lines: WHILE n <= line_count DO
    SET item = FLOOR(1 + RAND() * 100000), quantity = FLOOR(1 + RAND() * 10), supply = w;
    IF fails = 1 AND n = line_count THEN SET item = 100001; END IF;
    SELECT i_price INTO price FROM tpcc_item WHERE i_id = item;
    IF missing = 1 THEN LEAVE order_lines; END IF;
    SELECT s_quantity, CASE d WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03 WHEN 4 THEN s_dist_04 WHEN 5 THEN s_dist_05
      WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07 WHEN 8 THEN s_dist_08 WHEN 9 THEN s_dist_09 ELSE s_dist_10 END
      INTO amount_in_stock, place FROM tpcc_stock WHERE s_i_id = item AND s_w_id = supply;
    UPDATE tpcc_stock SET s_quantity = IF(amount_in_stock > quantity, amount_in_stock - quantity, amount_in_stock - quantity + 91)
      WHERE s_i_id = item AND s_w_id = supply;
    INSERT INTO tpcc_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info)
      VALUES (o, d, w, n, item, supply, quantity, quantity * price, place);
    SET n = n + 1;
  END WHILE;
  IF missing = 1 THEN ROLLBACK; ELSE COMMIT; END IF;
END
//
CREATE PROCEDURE payment(w INT, d INT, c INT, name VARCHAR(16), amount DECIMAL(6,2))
BEGIN
  DECLARE namesakes, place INT DEFAULT 0;
  DECLARE w_called, d_called VARCHAR(10);
  DECLARE credit CHAR(2);
  DECLARE balance DECIMAL(12,2);
  DECLARE noted VARCHAR(500);
  START TRANSACTION;
  UPDATE tpcc_warehouse SET w_ytd = w_ytd + amount WHERE w_id = w;
  SELECT w_name INTO w_called FROM tpcc_warehouse WHERE w_id = w;
  UPDATE tpcc_district SET d_ytd = d_ytd + amount WHERE d_w_id = w AND d_id = d;
  SELECT d_name INTO d_called FROM tpcc_district WHERE d_w_id = w AND d_id = d;
  IF name <> '' THEN
    SELECT COUNT(c_id) INTO namesakes FROM tpcc_customer WHERE c_last = name AND c_d_id = d AND c_w_id = w;
    SET place = (namesakes + 1) DIV 2 - 1;
    IF namesakes > 0 THEN
      SELECT c_id INTO c FROM tpcc_customer WHERE c_last = name AND c_d_id = d AND c_w_id = w ORDER BY c_first LIMIT place, 1;
    END IF;
  END IF;
  SELECT c_balance, c_credit INTO balance, credit FROM tpcc_customer WHERE c_w_id = w AND c_d_id = d AND c_id = c;
  IF credit = 'BC' THEN
    SELECT c_data INTO noted FROM tpcc_customer WHERE c_w_id = w AND c_d_id = d AND c_id = c;
    UPDATE tpcc_customer SET c_balance = balance - amount, c_data = LEFT(CONCAT(c, ' ', d, ' ', w, ' ', amount, '|', noted), 500)
      WHERE c_w_id = w AND c_d_id = d AND c_id = c;
  ELSE
    UPDATE tpcc_customer SET c_balance = balance - amount WHERE c_w_id = w AND c_d_id = d AND c_id = c;
  END IF;
  INSERT INTO tpcc_history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    VALUES (d, w, c, d, w, NOW(), amount, CONCAT(w_called, '    ', d_called));
  COMMIT;
END
//
CREATE PROCEDURE order_status(w INT, d INT, c INT, name VARCHAR(16))
BEGIN
  DECLARE namesakes, place, o, carrier INT DEFAULT 0;
  DECLARE sum_of_lines DECIMAL(12,2);
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET o = 0;
  START TRANSACTION;
  IF name <> '' THEN
    SELECT COUNT(c_id) INTO namesakes FROM tpcc_customer WHERE c_last = name AND c_d_id = d AND c_w_id = w;
    SET place = (namesakes + 1) DIV 2 - 1;
    IF namesakes > 0 THEN
      SELECT c_id INTO c FROM tpcc_customer WHERE c_last = name AND c_d_id = d AND c_w_id = w ORDER BY c_first LIMIT place, 1;
    END IF;
  END IF;
  SELECT o_id, o_carrier_id INTO o, carrier FROM tpcc_orders WHERE o_w_id = w AND o_d_id = d AND o_c_id = c ORDER BY o_id DESC LIMIT 1;
  SELECT SUM(ol_amount) INTO sum_of_lines FROM tpcc_order_line WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = o;
  COMMIT;
END
//
CREATE PROCEDURE delivery(w INT, carrier INT)
BEGIN
  DECLARE d, o, c INT DEFAULT 0;
  DECLARE total DECIMAL(12,2);
  DECLARE missing INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET missing = 1;
  START TRANSACTION;
  SET d = 1;
  WHILE d <= 10 DO
    SET missing = 0;
    SELECT no_o_id INTO o FROM tpcc_new_orders WHERE no_w_id = w AND no_d_id = d ORDER BY no_o_id LIMIT 1 FOR UPDATE;
    IF missing = 0 THEN
      DELETE FROM tpcc_new_orders WHERE no_w_id = w AND no_d_id = d AND no_o_id = o;
      SELECT o_c_id INTO c FROM tpcc_orders WHERE o_id = o AND o_d_id = d AND o_w_id = w;
      UPDATE tpcc_orders SET o_carrier_id = carrier WHERE o_id = o AND o_d_id = d AND o_w_id = w;
      UPDATE tpcc_order_line SET ol_delivery_d = NOW() WHERE ol_o_id = o AND ol_d_id = d AND ol_w_id = w;
      SELECT SUM(ol_amount) INTO total FROM tpcc_order_line WHERE ol_o_id = o AND ol_d_id = d AND ol_w_id = w;
      UPDATE tpcc_customer SET c_balance = c_balance + total WHERE c_id = c AND c_d_id = d AND c_w_id = w;
    END IF;
    SET d = d + 1;
  END WHILE;
  COMMIT;
END
//
CREATE PROCEDURE stock_level(w INT, d INT, threshold INT)
BEGIN
  DECLARE o, low INT DEFAULT 0;
  START TRANSACTION;
  SELECT d_next_o_id INTO o FROM tpcc_district WHERE d_w_id = w AND d_id = d;
  SELECT COUNT(DISTINCT s_i_id) INTO low FROM tpcc_order_line, tpcc_stock
    WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id < o AND ol_o_id >= o - 20 AND s_w_id = w AND s_i_id = ol_i_id AND s_quantity < threshold;
  COMMIT;
END
