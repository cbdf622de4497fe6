// Package diff compares runs of a program with earlier runs: what is new, what is gone, what
// happens more often, and what takes longer by more than chance explains.
//
// Input: the statistics of each run, as 'cudatrace stats' writes them. Output: a [Diff].
// Memory: a run has at most maxRows rows a report, and only the reports that are asked for.
package diff
