// Package report draws what a recording shows, for people who have only a browser: charts, and one page of HTML with
// all of them.
//
// Input: the tables of convert/stats, an [Overview] of the timeline, the [Part] of it that is a typical step, a
// comparison of convert/diff, and the slices of some moments ([Timeline]). Output: SVG and HTML in one piece, which
// load nothing; the HTML runs our own scripts alone, timeline.js and flame.js, or none.
//
// This package draws the charts itself. Go's chart libraries either need scripts in the browser or write pictures with
// fixed colours; neither follows the reader's choice of light or dark, nor prints well.
package report
