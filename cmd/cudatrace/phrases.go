package main

import "github.com/cudatrace/cudatrace/record/wording"

// phrases are the words of the phrases of recording and conversion: here they name options.
var phrases = map[wording.Phrase]string{
	wording.OtherPlace:   "choose another place with -o",
	wording.OtherName:    "choose another name with -o",
	wording.Start:        "'cudatrace record PROGRAM', or with 'cudatrace run --armed PROGRAM'",
	wording.CallBuffer:   "raise --" + callBufferFlag + ": 256M",
	wording.RuntimeCalls: "'record --calls cupti' records their names",
	wording.CUPTICalls:   "--calls auto has CUPTI record them",
	wording.ProbedEnds:   "the default --calls, with the rights for probes, has _exit and exec wait for them",
	wording.MetricNames:  "'cudatrace probes --" + gpuMetricsFlag + "' lists names",
	wording.MetricsRate:  "--" + gpuMetricsFlag + "=HZ sets the rate",
	wording.AllGPUs:      "--gpu-metrics-devices all samples all of them",
	wording.NameSteps:    "--step RANGES says which NVTX ranges are steps",
	wording.Untested:     "--significance none",
	wording.Incomplete:   "--allow-incomplete compares them nevertheless",
	wording.OtherGPU:     "--allow-gpu compares them nevertheless",
	wording.OtherDriver:  "--allow-driver compares them nevertheless",
	wording.OtherMode:    "--allow-mode compares them nevertheless",
	wording.Missing:      "--allow-missing passes the condition then",
	wording.AllColumns:   "--wide, a wider line and JSON have them",
	wording.AllRows:      "write it without --top",
	wording.ErrorsReport: "cudatrace stats --report errors has the callers",
	wording.ShapesReport: "cudatrace stats --report kernel_shapes has the grids",
	wording.Show:         "cudatrace stats LOG --report %s",
	wording.OfProcess:    "--process %d",
	wording.OfTime:       "--from %s --to %s",
	wording.RankReports:  "--report ranks,kernels with --ranks, its clocks (--report metrics)",

	wording.CaptureRange: "--capture-range",
	wording.Counters:     "the GPUs' counters (--" + gpuMetricsFlag + ")",
	wording.Delay:        "--delay",
	wording.MaxFiles:     "--max-files",
	wording.Ranks:        "--" + ranksFlag,
}

func init() { wording.Set(phrases) }
