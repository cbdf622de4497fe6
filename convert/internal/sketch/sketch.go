// Package sketch describes many numbers in little memory.
//
// Input: numbers, one by one, in any order. Output: their count, sum, extremes, mean and standard
// deviation, all exact, and their percentiles within [MaxError].
package sketch

import "math/bits"

// A Sketch counts numbers in buckets whose width grows with the numbers: each power of two is
// divided into the same number of buckets. The zero Sketch is empty. Its size does not depend on
// how many numbers it counts: pages exist for the powers of two that occur, 30 KiB at most.
type Sketch struct {
	count uint64
	pages [pages]*[perPage]uint64
}

const (
	pageBits = 6
	perPage  = 1 << pageBits     // buckets of a page
	pages    = 64 - pageBits + 1 // the first page has the numbers below perPage
)

// MaxError bounds the relative error of a quantile: half the width of a bucket over its least
// number.
const MaxError = 1.0 / (2 * perPage)

// bucketOf returns the bucket of a number.
func bucketOf(v uint64) (page, bucket int) {
	if v < perPage {
		return 0, int(v)
	}
	shift := bits.Len64(v) - pageBits - 1
	return shift + 1, int(v>>shift) - perPage
}

// middle returns the number that stands for all numbers of a bucket.
func middle(page, bucket int) uint64 {
	if page == 0 {
		return uint64(bucket)
	}
	shift := page - 1
	return uint64(bucket+perPage)<<shift + 1<<shift>>1
}

// Add adds a number.
func (s *Sketch) Add(v uint64) {
	page, bucket := bucketOf(v)
	p := s.pages[page]
	if p == nil {
		p = new([perPage]uint64)
		s.pages[page] = p
	}
	p[bucket]++
	s.count++
}

// Quantile returns the number of a rank, within MaxError. The rank is a percentage of the
// count, rounded up: with 50 it is the lower one of two middle numbers. It returns 0 for an
// empty sketch.
func (s *Sketch) Quantile(percent uint64) uint64 {
	rank := s.count/100*percent + (s.count%100*percent+99)/100
	rank = max(rank, 1)
	for page, p := range &s.pages {
		if p == nil {
			continue
		}
		for bucket, n := range p {
			if n >= rank {
				return middle(page, bucket)
			}
			rank -= n
		}
	}
	return 0
}

// Merge adds the numbers of another sketch.
func (s *Sketch) Merge(o *Sketch) {
	for i, p := range &o.pages {
		if p == nil {
			continue
		}
		sum := new([perPage]uint64)
		if s.pages[i] != nil {
			*sum = *s.pages[i]
		}
		for bucket, n := range p {
			sum[bucket] += n
		}
		s.pages[i] = sum
	}
	s.count += o.count
}
