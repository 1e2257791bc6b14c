"""What programs of FreeBSD and OpenBSD print, literally; host bridge, root port and card, of many more lines than are read."""

# usr.sbin/pciconf/pciconf.c and cap.c; `-B` of bridges, `-c` of all.
PCICONF = """\
hostb0@pci0:0:0:0:\tclass=0x060000 rev=0x11 hdr=0x00 vendor=0x8086 device=0x1980 subvendor=0x15d9 subdevice=0x0000
pcib3@pci0:0:9:0:\tclass=0x060400 rev=0x11 hdr=0x01 vendor=0x8086 device=0x19a4 subvendor=0x15d9 subdevice=0x0000
    bus range  = 101-102
    window[1c] = type I/O Port, range 16, addr 0xe000-0xefff, enabled
    window[20] = type Memory, range 32, addr 0xdf000000-0xdf1fffff, enabled
    cap 10[40] = PCI-Express 2 root port max data 128(256) ARI disabled
                 max read 128
                 link x4(x8) speed 8.0(8.0) ASPM disabled(L1)
                 slot 3 power limit 25000 mW
    cap 05[80] = MSI supports 1 message enabled with 1 message
ixl0@pci0:101:0:0:\tclass=0x020000 rev=0x02 hdr=0x00 vendor=0x8086 device=0x1572 subvendor=0x15d9 subdevice=0x0000
    cap 01[40] = powerspec 3  supports D0 D3  current D0
    cap 11[70] = MSI-X supports 129 messages, enabled
                 Table in map 0x1c[0x0], PBA in map 0x1c[0x1000]
    cap 10[a0] = PCI-Express 2 endpoint max data 128(2048) FLR RO
                 max read 512
                 link x4(x8) speed 8.0(8.0) ASPM L1(L1)
ixl2@pci1:101:0:0:\tclass=0x020000 rev=0x02 hdr=0x00 vendor=0x8086 device=0x1572 subvendor=0x15d9 subdevice=0x0000
    cap 10[a0] = PCI-Express 2 endpoint max data 256(2048) FLR RO
                 max read 512
                 link x8(x8) speed 8.0(8.0) ASPM disabled(L1)
"""
# usr.sbin/pcidump/pcidump.c of OpenBSD 7.
PCIDUMP = """\
Domain /dev/pci0:
 0:0:0: AMD 16h Root Complex
\t0x0000: Vendor ID: 1022, Product ID: 1566
\t0x0008:\tClass: 06 Bridge, Subclass: 00 Host,
\t\tInterface: 00, Revision: 00
 0:2:2: AMD 16h PCIE
\t0x0000: Vendor ID: 1022, Product ID: 1439
\t0x0010: BAR empty (00000000)
\t0x0018: Primary Bus: 0, Secondary Bus: 1, Subordinate Bus: 1,
\t\tSecondary Latency Timer: 00
\t0x0050: Capability 0x01: Power Management
\t\tState: D0
\t0x0058: Capability 0x10: PCI Express
\t\tMax Payload Size: 128 / 512 bytes
\t\tMax Read Request Size: 512 bytes
\t\tLink Speed: 2.5 / 5.0 GT/s
\t\tLink Width: x1 / x1
\t\tASPM: L0s, L1 (L1 enabled)
\t0x0100: Enhanced Capability 0x0b: Vendor-Specific
 1:0:0: Intel I210
\t0x0000: Vendor ID: 8086, Product ID: 1533
\t0x0028: Cardbus CIS: 00000000
\t0x0090: Capability 0x03: Vital Product Data (VPD)
    PN: I210-T1
    FW: Version 3.16
\t0x00a0: Capability 0x10: PCI Express
\t\tMax Payload Size: 128 / 512 bytes
\t\tMax Read Request Size: 512 bytes
\t\tLink Speed: 2.5 / 2.5 GT/s
\t\tLink Width: x1 / x1
\t\tASPM: L0s, L1 (disabled)
\t0x0100: Enhanced Capability 0x01: Advanced Error Reporting
"""
DMESG = """\
pci0 at mainbus0 bus 0
ppb0 at pci0 dev 2 function 1 "AMD 16h PCIE" rev 0x00: msi
pci1 at ppb0 bus 9
em0 at pci1 dev 0 function 0 "Intel I210" rev 0x03: msi, address 00:0d:b9:00:00:01
pci0 at mainbus0 bus 0
ppb0 at pci0 dev 2 function 2 "AMD 16h PCIE" rev 0x00: msi
pci1 at ppb0 bus 1
em0 at pci1 dev 0 function 0 "Intel I210" rev 0x03: msi, address 00:0d:b9:00:00:01
"""
# usr.sbin/arp/arp.c of FreeBSD.
FREEBSD_ARP = """\
? (172.16.0.2) at 3c:ec:ef:00:00:02 on ixl0 expires in 41 seconds [ethernet]
? (172.16.0.1) at 3c:ec:ef:00:00:01 on ixl0 permanent [ethernet]
? (172.16.10.2) at 3c:ec:ef:00:00:03 on ixl1 expires in 1186 seconds [ethernet]
? (172.16.20.2) at (incomplete) on ixl2 expired [ethernet]
? (172.16.30.2) at 3c:ec:ef:00:00:04 on ixl3 expired [vlan]
"""
# usr.sbin/arp/arp.c of OpenBSD.
OPENBSD_ARP = """\
Host                                 Ethernet Address    Netif Expire    Flags
172.16.0.2                           00:0d:b9:00:00:02     em0 41s
172.16.0.1                           00:0d:b9:00:00:01     em0 permanent l
172.16.10.2                          00:0d:b9:00:00:03     em1 19m46s
172.16.20.2                          (incomplete)          em2 expired
"""
