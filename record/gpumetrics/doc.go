// Package gpumetrics samples what GPUs do beside the recorded calls: clocks, power, temperatures,
// the use of their units. It has two halves. The first is a small C program, the sampler, that runs as the
// user of the recorded program and asks the driver's libraries. The second starts the sampler, decides
// which GPUs are worth sampling, and writes what comes to the log.
//
//	libnvidia-ml ──► sampler (process) ── socket pair ──► Sampler ──► metric sets and samples in the log
//	libcupti     ──► sampler (process) ── socket pair ──┘
//
// PM sampling, by CUPTI, is done on demand. It has a process of its own, which may crash, and start late.
//
// Input: messages from the sampler, and the processes, devices and contexts of the recording. Output:
// records of package tracelog. What the processes do on the host is sampled here, too, from /proc.
//
// The sampler reads the GPUs from the first process on that uses CUDA. A GPU counts once a recorded process has a
// context there: by CUPTI's records, or by NVML's list of processes. Until then its samples wait here, and
// after some seconds the GPU is left alone.
//
// The sampler is a process that we do not trust: everything that it sends is checked, and the worst
// outcome is that it is ended. It ends with the recorder, however that ends.
//
//	sampler.go    the Sampler: both processes from their start to their end
//	process.go    one process
//	counters.go   PM sampling: when it starts, and why not
//	pmmetrics.go  the metrics of PM sampling
//	list.go       the metrics that GPUs have
//	program.go    the program's bytes, and its environment
//	wire.go       messages; the C side is sampler/wire.h
//	gpus.go       which GPUs are sampled for the log
//	users.go      processes that share a GPU with the recording
//	metrics.go    the metrics of NVML and GPM
//	host.go       the processes on the host, beside their GPUs
package gpumetrics
