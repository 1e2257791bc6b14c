/* The plainest sender that paces evenly: one frame a call, each at its own instant of CLOCK_MONOTONIC, and the process spins in between.
 *
 *     even_sender INTERFACE FRAME_IN_HEX RATE_PPS FRAMES stretch|keep
 *
 * A frame that the interface has no room for is offered again until it is taken, as TRex does, and as our engine does for 100 ms. With `stretch`, what
 * is more than one gap late is not made up for, and the trial takes longer, as TRex does. With `keep`, late frames are made up for, and the trial ends
 * on time, as our engine does: what is late then has 10 ms more, unless there was no room for the last 10 ms.
 * Prints: frames sent, seconds that it took, frames that found no room at the end, seconds without room, frames that left later than one gap.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { LONGEST = 9216, GRACE_NS = 10000000 };

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static size_t from_hex(const char *hex, uint8_t *bytes) {
    size_t length = strlen(hex) / 2;
    for (size_t i = 0; i < length && i < LONGEST; i++)
        if (sscanf(hex + 2 * i, "%2hhx", &bytes[i]) != 1)
            return 0;
    return length <= LONGEST ? length : 0;
}

static int packet_socket(const char *interface) {
    const int bypass = 1;
    struct sockaddr_ll there = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(interface)};
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (fd < 0 || there.sll_ifindex == 0 || setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &bypass, sizeof bypass) < 0 ||
        bind(fd, (struct sockaddr *)&there, sizeof there) < 0) {
        perror(interface);
        return -1;
    }
    return fd;
}

int main(int argc, char **argv) {
    static uint8_t frame[LONGEST];
    if (argc != 6) {
        fprintf(stderr, "usage: even_sender INTERFACE FRAME_IN_HEX RATE_PPS FRAMES stretch|keep\n");
        return 2;
    }
    const size_t length = from_hex(argv[2], frame);
    const double gap = 1e9 / atof(argv[3]);
    const long frames = atol(argv[4]);
    const int fd = packet_socket(argv[1]);
    if (fd < 0 || length == 0 || !(gap > 0) || frames <= 0)
        return 2;
    const bool keep = strcmp(argv[5], "keep") == 0;
    long sent = 0, late = 0;
    double full = 0, now = now_ns(), due = now, last_room = now;
    const double began = now, end = keep ? began + gap * (double)frames : 1e300;
    bool room = true;
    while (sent < frames && now < (last_room > end - GRACE_NS ? end + GRACE_NS : end)) {
        while (room && (now = now_ns()) < due)
            ;
        const bool sending = send(fd, frame, length, 0) == (ssize_t)length;
        if (!sending && errno != ENOBUFS && errno != EAGAIN) {
            perror("send");
            return 1;
        }
        if (sending) {
            sent++;
            last_room = now;
            late += now > due + gap;
            due = (now > due + gap && !keep ? now : due) + gap;
        } else {
            const double then = now;
            now = now_ns();
            full += now - then;
        }
        room = sending;
    }
    printf("%ld %.9f %ld %.9f %ld\n", sent, (now_ns() - began) / 1e9, room ? 0L : frames - sent, full / 1e9, late);
    return 0;
}
