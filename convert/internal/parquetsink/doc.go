// Package parquetsink writes the tables of package joined as Parquet files, for the engines that query many runs.
//
// Input: rows. Output: a file a table, run, host, rank and log, in folders that engines know as Hive
// partitions:
//
//	work/run=train-7/host=node1/rank=0/5f0c62d1a2b3c4d5.parquet
//
// [Tables] is the schema; docs/parquet.md is made of it. Rows wait until a row group is full, or until all rows that
// wait take more than a budget, and are then sorted by time, encoded and written on other goroutines, while further
// rows come. Rows that are being encoded count for the budget. So memory does not grow with the timeline.
package parquetsink
