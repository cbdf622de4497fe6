// Package report draws what a recording shows, for people who have only a browser: charts, and one page of HTML with all of them.
//
// Input: the tables of convert/stats, an [Overview] of the timeline, the [Part] of it that is a typical step, and a comparison
// of convert/diff. Output: SVG and HTML in one piece, which load nothing and run no script.
//
// The charts are drawn by the code of this package. Libraries that draw charts in Go either need scripts in the browser, or write
// pictures whose colours are fixed: neither follows the reader's choice of light and dark, and prints.
package report
