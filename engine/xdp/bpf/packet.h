/* SPDX-License-Identifier: Apache-2.0 */
/* Headers and helpers that all programs use. */
#ifndef DUTLAB_PACKET_H
#define DUTLAB_PACKET_H

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "contract.h"
#include "sums.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#endif
