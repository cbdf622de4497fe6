// Package diff compares runs of a program with earlier runs: what is new, what is gone, what
// happens more often, and what takes longer by more than chance explains. It reads and checks
// conditions on the figures ("kernel_time > +5%").
//
// Input: the statistics of each run, as 'cudatrace stats' writes them; conditions. Output: a
// [Diff], the outcomes of conditions, and a [Page] of both as text, Markdown, JSON or JUnit XML.
// Memory: a run has at most maxRows rows a report, and only the reports that are asked for.
package diff
