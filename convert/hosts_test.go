package convert

import (
	"fmt"
	"testing"

	"github.com/cudatrace/cudatrace/convert/internal/timelinetest"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// timelineOfRanks makes one timeline of the logs of ranks.
func timelineOfRanks(t *testing.T, open []logtest.Opener) (*timelinetest.Timeline, []Summary) {
	t.Helper()
	var logs []Log
	for i, o := range open {
		logs = append(logs, Log{fmt.Sprintf("rank %d", i), o})
	}
	return timelineWith(t, Options{}, logs...)
}

// Real ranks of one host become those of several, whose clocks differ: all GPU work is where it was, to the bound
// that is stated, and much better. The bound is wide, since the collectives take a small part of the logs. Package
// collective tries other clocks (TestRealClocks).
func TestRealHosts(t *testing.T) {
	t.Parallel()
	const shift, drift = 123456789, 300 // ns, ppm
	for _, capture := range logtest.Captures {
		t.Run(fmt.Sprintf("%d ranks", capture.Ranks), func(t *testing.T) {
			t.Parallel()
			var own, moved []logtest.Opener
			for _, path := range capture.Paths("..") {
				own = append(own, func() (*tracelog.Reader, error) { return tracelog.Open(path) })
			}
			truth, _ := timelineOfRanks(t, own)
			clocks := logtest.HostClocks(capture.Ranks, truth.Recording.Start, shift, drift)
			for i, path := range capture.Paths("..") {
				moved = append(moved, logtest.InMemory(logtest.OnHost(t, path, fmt.Sprintf("node-%d", i), clocks[i])))
			}
			got, all := timelineOfRanks(t, moved)
			reference := 0
			for i, s := range all {
				if s.Alignment.By != ByCollectives {
					reference = i
				}
			}
			for i, p := range got.Processes {
				a := all[i].Alignment
				same := Alignment{To: fmt.Sprintf("rank %d", reference), By: BySameClock, Known: true}
				met := a.By == ByCollectives && a.Known && a.ErrorNS <= capture.Bound && a.AmongNS <= capture.Bound/5
				if i == reference && *a != same || i != reference && !met {
					t.Fatalf("rank %d is aligned so: %+v", i, a)
				}
				kernels := 0
				for j, stream := range p.Streams {
					for k := range stream.Work {
						kernels++
						want := clocks[reference].At(truth.Processes[i].Streams[j].Work[k].Start)
						off := int64(stream.Work[k].Start - want)
						if max(off, -off) > min(int64(a.ErrorNS), capture.Off)+1 { // 1: rounded
							t.Fatalf("rank %d: work %d of stream %d is wrong by %d ns, said to be right to %d ns",
								i, k, j, off, a.ErrorNS)
						}
					}
				}
				if kernels < 1000 {
					t.Errorf("rank %d has %d pieces of GPU work", i, kernels)
				}
			}
		})
	}
}
