// Package steps finds the steps of programs: what they repeat. These are NVTX ranges that bear a number or come again
// and again; where there are none, what lies between cudaProfilerStart and cudaProfilerStop; else the period of the
// launches.
//
// Input: ranges, calls and work of a timeline, as they come. Output: [Kind] values, the steps of one kind of a process.
package steps
