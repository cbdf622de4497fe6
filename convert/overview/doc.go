// Package overview sums up what each rank did over time.
//
// Input: the GPU work of the ranks of a timeline. Output: for each rank and GPU a [Row] of slices of one [State] each, few enough to
// look at 64 ranks at once: at most 1,024 a row, and at most one for 16 pieces of work of a row that has more than 64 slices.
//
// Time is divided into bins, whose width doubles when there are too many. The state of a bin is the one that took most of
// it. The times of a slice are exact, and those of a row add up to those of 'cudatrace stats', which come from the same
// package activity.
package overview
