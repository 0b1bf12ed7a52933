// CMake wants one source for a library; all of unisono's are in the layers, which src/CMakeLists.txt folds in whole.
