// Package parquet writes Apache Parquet files of flat tables.
//
// Input: the columns of a row group, as numbers, floats or texts. Output: a file that DuckDB, ClickHouse, Spark, Trino
// and every other reader of Parquet opens.
//
//	"PAR1"
//	row group:  for each column  [dictionary page]  data page, data page, ...
//	row group:  ...
//	footer: schema, place and statistics of each column of each row group (Thrift, compact protocol)
//	length of the footer (4 bytes)  "PAR1"
//
// A page is a header (Thrift) and values, compressed with zstd. Values have one of these encodings:
//
//   - RLE_DICTIONARY, for texts and for numbers that repeat: indexes into the dictionary page, bit-packed
//   - DELTA_BINARY_PACKED, for all other numbers: differences, bit-packed in blocks of 128
//   - PLAIN, for floats, booleans, and texts that do not repeat
//
// Pages are of version 1, which every reader knows. The writer holds nothing of a row group that is written but its
// part of the footer. Row groups are encoded and written on goroutines of their own.
//
// A package of its own, and none of the libraries for Go: docs/architecture.md has what was measured.
package parquet
