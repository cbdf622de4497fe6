// Package columns stores tables of numbers column by column.
//
// An [Encoder] takes the [Rows] of one table and gives its bytes; a [Decoder] takes the
// bytes and gives a [Table] of [Column] values. Each column is stored in the form that
// takes the least room: one number for all rows, a byte a row that picks from a list,
// differences, or symbols that compress beside bits that do not. FORMAT.md specifies the
// bytes under "Table" and "Column". The decoder takes any input: it checks every length
// before it uses or allocates anything by it.
package columns
