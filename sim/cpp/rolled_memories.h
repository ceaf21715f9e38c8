// The memories of rolled arrays, for those who do not take the way through the device.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hwgen {

// An array's memories. PEs are numbered i·Pn + j.
class Rolled {
  public:
    explicit Rolled(const char* place) : place_(place) {}
    virtual ~Rolled() = default;
    const std::string& place() const { return place_; }
    virtual uint32_t pes() const = 0;
    virtual uint32_t depth() const = 0;
    virtual int64_t weight(uint32_t pe, uint32_t address) const = 0;
    virtual int64_t gradient(uint32_t pe, uint32_t address) const = 0;
    // As a load of the host does: the weight, and a dW of 0.
    virtual void load(uint32_t pe, uint32_t address, uint32_t value) = 0;

  private:
    std::string place_;
};

// All arrays of the simulation, by the number that they got when they were made.
inline std::vector<std::unique_ptr<Rolled>>& rolled_arrays() {
    static std::vector<std::unique_ptr<Rolled>> all;
    return all;
}

}  // namespace hwgen
