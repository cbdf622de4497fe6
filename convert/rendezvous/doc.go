// Package rendezvous tells of each part of a collective how long its rank waited for the others.
//
// Input: the members of communicators, and when each entered each collective, on the timeline's clock. Output: the timeline, whose
// kernels of NCCL have a [timeline.Part]. Those that send and receive have one of their own: nothing tells which belong together.
//
// The rank that enters last is the one that the others wait for. It is known before the timeline begins, because a
// timeline has one log after the other. Memory is bounded: of very many collectives the newest are told of.
package rendezvous
