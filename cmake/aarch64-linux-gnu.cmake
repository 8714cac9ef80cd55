# Cross build for 64-bit Arm on Debian: g++-aarch64-linux-gnu, the arm64 packages of scripts/install_dependencies --arm
# (multiarch), and qemu-user, through which CTest runs the tests.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
# -cpu max has the dot product. The tests of a CPU without it name their own (src/kernels/CMakeLists.txt).
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;-cpu;max)
# Else pkg-config hands out the libraries of the machine that builds.
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
