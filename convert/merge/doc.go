// Package merge puts the records of a log in the order of time.
//
// Input: blocks of a log, each of one kind and mostly of one thread or stream; [Readers] read
// them. Output: records in order, each a [Call] or a [Work]. A [Merger] takes the blocks of one
// thread or one stream, and gives their records up to the watermark: the earliest time that a
// later block may still contain. Equal argument lists become one value, and so do equal launch
// shapes.
package merge
